//go:build !cgo

package resample

import "testing"

// InC reports whether this build has C.
const InC = false

type noSink struct{ Sink }

func (noSink) Pix() (pix []byte, ordered bool) { panic("no C") }

func NewSinkInC(testing.TB, int, int) noSink { panic("no C") }
