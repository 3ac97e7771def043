//go:build cgo && linux

// Package starve makes allocations of C code fail, one at a time, for tests. A program that links
// it has its malloc: it does what the C library's does, but for the one call that is to fail.
package starve

// #include "starve.h"
import "C"

import "runtime"

// Available reports whether allocations can be made to fail: with glibc.
func Available() bool { return C.starve_available() != 0 }

// Run calls f, and counts what C code allocates meanwhile on f's thread. Call number nth, from 1,
// fails, and all that follow where rest is true; with 0 none does.
func Run(nth int, rest bool, f func()) (allocations int) {
	runtime.LockOSThread() // besides, Go makes no thread from one that is locked
	defer runtime.UnlockOSThread()
	C.starve_begin(C.long(nth), C.int(b2i(rest)))
	defer func() { allocations = int(C.starve_end()) }()
	f()
	return 0
}

func b2i(b bool) int {
	if b {
		return 1
	}
	return 0
}
