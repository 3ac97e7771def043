//go:build cgo

// Package csink is a sink in C for resample's tests, because test files cannot use cgo. It
// stores rows, one after the other, in its own memory.
package csink

/*
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

typedef struct { size_t row; int rows, wrong; uint8_t *pix; } sink;

static void put(void *ctx, int y, const uint8_t *row)
{
	sink *s = ctx;
	s->wrong += y != s->rows++;
	memcpy(s->pix + y * s->row, row, s->row);
}

static void *putter(void) { return (void *)put; }
*/
import "C"

import "unsafe"

// Available reports whether this build has C.
const Available = true

// Sink stores an image's rows.
type Sink struct{ c *C.sink }

// New returns a sink for rows of row bytes.
func New(rows, row int) *Sink {
	c := (*C.sink)(C.calloc(1, C.sizeof_sink))
	c.row, c.pix = C.size_t(row), (*C.uint8_t)(C.malloc(C.size_t(rows*row+1)))
	return &Sink{c}
}

// Native returns the C function and context that resample uses.
func (s *Sink) Native() (put, ctx unsafe.Pointer) { return C.putter(), unsafe.Pointer(s.c) }

// PutRow takes a row from Go.
func (s *Sink) PutRow(y int, row []byte) {
	C.put(unsafe.Pointer(s.c), C.int(y), (*C.uint8_t)(unsafe.Pointer(unsafe.SliceData(row))))
}

// Begin starts another image.
func (s *Sink) Begin() { s.c.rows, s.c.wrong = 0, 0 }

// Pix returns the rows received, in the sink's memory, and whether they came in order.
func (s *Sink) Pix() (pix []byte, ordered bool) {
	n := int(s.c.rows) * int(s.c.row)
	return unsafe.Slice((*byte)(s.c.pix), n), s.c.wrong == 0
}

// Close frees the memory.
func (s *Sink) Close() {
	C.free(unsafe.Pointer(s.c.pix))
	C.free(unsafe.Pointer(s.c))
}
