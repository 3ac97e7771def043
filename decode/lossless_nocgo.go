//go:build !cgo

package decode

func newRowPacker(width, planes int) *goRowPacker { return newGoRowPacker(width, planes) }
