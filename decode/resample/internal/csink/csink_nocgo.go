//go:build !cgo

// Package csink is a sink in C for resample's tests; without cgo there is none.
package csink

// Available reports whether this build has C.
const Available = false

// Sink is a stub.
type Sink struct{}

// New panics.
func New(rows, row int) *Sink { panic("csink: no cgo") }

// PutRow does nothing.
func (s *Sink) PutRow(int, []byte) {}

// Begin does nothing.
func (s *Sink) Begin() {}

// Pix returns nothing.
func (s *Sink) Pix() ([]byte, bool) { return nil, false }

// Close does nothing.
func (s *Sink) Close() {}
