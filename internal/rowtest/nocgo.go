//go:build !cgo

package rowtest

import (
	"testing"
	"unsafe"
)

// InC reports whether this build has C. Without it, there is nothing else.
const InC = false

type Sink struct{}

func NewSink(testing.TB, int, int) Sink              { panic("no C") }
func Put(put, ctx unsafe.Pointer, y int, row []byte) { panic("no C") }
func (Sink) PutRow(int, []byte)                      { panic("no C") }
func (Sink) Pix() (pix []byte, ordered bool)         { panic("no C") }
