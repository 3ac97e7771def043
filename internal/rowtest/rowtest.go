//go:build cgo

// Package rowtest has both ends of a callback in C that takes rows of pixels,
//
//	void (*put)(void *ctx, int y, const uint8_t *row)
//
// for tests of packages that provide or call one. Test files cannot use cgo themselves.
package rowtest

/*
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

typedef struct { size_t row; int rows, wrong; uint8_t pix[]; } sink;

static void store(void *ctx, int y, const uint8_t *row)
{
	sink *s = ctx;
	s->wrong += y != s->rows++;
	memcpy(s->pix + y * s->row, row, s->row);
}

static void *storer(void) { return (void *)store; }

static void call(void *put, void *ctx, int y, const uint8_t *row)
{
	((void (*)(void *, int, const uint8_t *))put)(ctx, y, row);
}
*/
import "C"

import (
	"testing"
	"unsafe"
)

// InC reports whether this build has C.
const InC = true

// Put calls put with row y.
func Put(put, ctx unsafe.Pointer, y int, row []byte) {
	C.call(put, ctx, C.int(y), (*C.uint8_t)(unsafe.Pointer(unsafe.SliceData(row))))
}

// Sink stores an image's rows, one after the other, in its own memory.
type Sink struct{ c *C.sink }

// NewSink returns a sink for rows of row bytes. Its memory is freed when the test ends.
func NewSink(t testing.TB, rows, row int) Sink {
	c := (*C.sink)(C.calloc(1, C.size_t(C.sizeof_sink+rows*row)))
	c.row = C.size_t(row)
	t.Cleanup(func() { C.free(unsafe.Pointer(c)) })
	return Sink{c}
}

// Native returns the callback and its context.
func (s Sink) Native() (put, ctx unsafe.Pointer) { return C.storer(), unsafe.Pointer(s.c) }

// PutRow takes a row from Go.
func (s Sink) PutRow(y int, row []byte) { Put(C.storer(), unsafe.Pointer(s.c), y, row) }

// Pix returns the rows received, in the sink's memory, and whether they came in order.
func (s Sink) Pix() (pix []byte, ordered bool) {
	n := int(s.c.rows) * int(s.c.row)
	return unsafe.Slice((*byte)(unsafe.Add(unsafe.Pointer(s.c), C.sizeof_sink)), n), s.c.wrong == 0
}
