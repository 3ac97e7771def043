//go:build !cgo

package decode

// otherPaths is empty: Go's decoders have only one path.
func otherPaths() []codecSet { return nil }
