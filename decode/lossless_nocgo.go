//go:build !cgo

package decode

func newRowPacker(width, planes int, _ Kernel) *goRowPacker { return newGoRowPacker(width, planes) }
