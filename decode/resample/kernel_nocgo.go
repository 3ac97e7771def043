//go:build !cgo

package resample

import "unsafe"

func nativeRuns(Kernel) bool { return false }

func nativeCopy([]byte, int, int, unsafe.Pointer, unsafe.Pointer) {
	panic("resample: a sink in C in a program without cgo")
}

func runNative(Kernel, Sink, unsafe.Pointer, unsafe.Pointer, *job, []byte, int, []byte) {
	panic("resample: a kernel in C in a program without cgo")
}
