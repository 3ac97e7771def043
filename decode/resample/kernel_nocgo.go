//go:build !cgo

package resample

import "unsafe"

func nativeRuns(int) bool { return false }

func nativeCopy([]byte, int, int, unsafe.Pointer, unsafe.Pointer) {
	panic("resample: a sink in C in a program without cgo")
}

func run(sink Sink, _, _ unsafe.Pointer, j *job, from []byte, stride int, scratch []byte) {
	runGo(sink, j, from, stride, scratch)
}
