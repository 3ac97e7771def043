//go:build !cgo

package decode

func newRowPacker(width, planes int, _ Kernel) rowPacker { return newGoRowPacker(width, planes) }
