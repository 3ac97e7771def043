// Package fault says whose fault an error is.
//
// The cause alone decides how an error is handled: a bad file is remembered, and another sample may
// replace it; a failure of the machine is not held against any file, and the operation is tried
// again. So the cause is determined where a system call, a codec or a store fails: by an error of
// this package ([New]), or by an errno or the end of a context, whose causes are known here. Code
// above only wraps the error, and asks [Of].
package fault

import (
	"context"
	"errors"

	"golang.org/x/sys/unix"
)

// A Cause is who or what is at fault.
type Cause uint8

const (
	// Machine: storage, descriptors, or a bug. It is also the cause of every unclassified error.
	Machine Cause = iota
	// File: it is missing, unreadable, changed, or has the wrong content. Only this cause may be
	// held against a file, or affect what replaces it.
	File
	// Memory: the limit or the kernel refused it.
	Memory
	// Cancelled: nobody wants the result any more.
	Cancelled
)

// A Fault is an error with a cause.
type Fault struct {
	Cause Cause
	Err   error
}

// New returns an error with a cause and a text.
func New(c Cause, text string) error { return &Fault{c, errors.New(text)} }

func (f *Fault) Error() string { return f.Err.Error() }

func (f *Fault) Unwrap() error { return f.Err }

// Of is the cause of an error. If it wraps errors with several causes, Cancelled comes first: it is
// nobody's fault. Then comes Memory, because a lack of it can look like anything; then Machine,
// because its failures can look like a missing or damaged file.
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

// ofErrno is the cause of the kernel's error about a file.
func ofErrno(e unix.Errno) Cause {
	switch e {
	case unix.ENOENT, unix.ENOTDIR, unix.ELOOP, unix.EACCES, unix.ENAMETOOLONG:
		return File
	case unix.ENOMEM:
		return Memory
	}
	return Machine
}
