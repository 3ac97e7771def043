//go:build cgo && linux

// Package starve makes C allocations fail, one at a time, for tests. It replaces malloc in any
// program that links it; all calls go to the C library's malloc except those that are to fail.
package starve

// #include "starve.h"
import "C"

import "runtime"

// Available reports whether allocations can be made to fail, which needs glibc.
func Available() bool { return C.starve_available() != 0 }

// Run calls f and counts the allocations of C code on f's thread. Call number nth, from 1,
// fails, and so do all later ones if rest is true; if nth is 0, none fails.
func Run(nth int, rest bool, f func()) (allocations int) {
	runtime.LockOSThread() // Go also starts no new thread from a locked one
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
