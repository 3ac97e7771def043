//go:build !cgo

package resample

import "unsafe"

func nativeRuns(Kernel) bool { return false }

func nativeCopy([]byte, int, int, unsafe.Pointer, unsafe.Pointer) { noC() }

func runNative(Kernel, Sink, unsafe.Pointer, unsafe.Pointer, *job, []byte, int, []byte) { noC() }

func noC() { panic("resample: a sink or a kernel in C in a program without cgo") }
