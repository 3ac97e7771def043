// Package fault says whose fault an error is.
//
// What becomes of an error depends on its cause alone: a bad file is remembered, and another sample
// may take its place; a failure of the machine is nobody's, and what failed is tried again. So the
// cause is made where a system call, a codec or a store fails: as an error of this package ([New]),
// or as an errno or the end of a context, whose causes are known here. Everything above only wraps
// it, and asks [Of].
package fault

import (
	"context"
	"errors"

	"golang.org/x/sys/unix"
)

// A Cause is what an error is the fault of.
type Cause uint8

const (
	// Machine: storage, descriptors, or a bug. So is what nobody has said the cause of.
	Machine Cause = iota
	// File: it is missing, may not be read, has changed, or does not hold what it should. Only this
	// may be held against a file, or change what takes its place.
	File
	// Memory: there is none, by the limit or by the kernel.
	Memory
	// Cancelled: the result is not wanted any more.
	Cancelled
)

// A Fault is an error with a cause.
type Fault struct {
	Cause Cause
	Err   error
}

// New returns an error with a cause that has a text.
func New(c Cause, text string) error { return &Fault{c, errors.New(text)} }

func (f *Fault) Error() string { return f.Err.Error() }

func (f *Fault) Unwrap() error { return f.Err }

// Of is the cause of an error. Where what it wraps has several, what is cancelled is nobody's
// fault; a lack of memory can look like anything; and a failure of the machine can look like a file
// that is missing or damaged.
func Of(err error) Cause {
	var found [Cancelled + 1]bool
	collect(err, &found)
	for _, c := range []Cause{Cancelled, Memory, Machine, File} {
		if found[c] {
			return c
		}
	}
	return Machine
}

func collect(err error, found *[Cancelled + 1]bool) {
	switch e := err.(type) {
	case nil:
		return
	case *Fault:
		found[e.Cause] = true
	case unix.Errno:
		found[ofErrno(e)] = true
	}
	if err == context.Canceled || err == context.DeadlineExceeded {
		found[Cancelled] = true
	}
	switch e := err.(type) {
	case interface{ Unwrap() error }:
		collect(e.Unwrap(), found)
	case interface{ Unwrap() []error }:
		for _, err := range e.Unwrap() {
			collect(err, found)
		}
	}
}

// ofErrno is the cause of an error of the kernel about a file.
func ofErrno(e unix.Errno) Cause {
	switch e {
	case unix.ENOENT, unix.ENOTDIR, unix.ELOOP, unix.EACCES, unix.ENAMETOOLONG:
		return File
	case unix.ENOMEM:
		return Memory
	}
	return Machine
}
