//go:build !cgo

package decode

// otherPaths: Go's decoders have only one.
func otherPaths() []codecSet { return nil }
