// Package rowtest delivers rows of pixels as C code does, for tests of packages that provide or
// call such a callback.
package rowtest

import "unsafe"

// Put calls put, a C function
//
//	void (*put)(void *ctx, int y, const uint8_t *row)
//
// with row y. It panics in a build without C, which has no such function.
func Put(put, ctx unsafe.Pointer, y int, row []byte) { call(put, ctx, y, row) }
