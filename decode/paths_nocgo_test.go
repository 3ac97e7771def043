//go:build !cgo

package decode

const goOnly = true

// otherPaths is empty: Go's decoders have only one path.
func otherPaths() []codecSet { return nil }
