//go:build !cgo

package rowtest

import "unsafe"

func call(put, ctx unsafe.Pointer, y int, row []byte) { panic("rowtest: a build without C") }
