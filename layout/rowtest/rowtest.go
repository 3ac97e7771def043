// Package rowtest delivers rows of pixels the way C code does, for the tests of
// those who hand out such a callback and of those who call it.
package rowtest

import "unsafe"

// Put calls put, a C function
//
//	void (*put)(void *ctx, int y, const uint8_t *row)
//
// with row y. A build without C panics; there is no such function in it.
func Put(put, ctx unsafe.Pointer, y int, row []byte) { call(put, ctx, y, row) }
