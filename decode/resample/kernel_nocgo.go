//go:build !cgo

package resample

import "unsafe"

func fastest() Kernel { return kernelGo }

func runNative(Kernel, Sink, unsafe.Pointer, unsafe.Pointer, *job, []byte, int, []byte) {
	panic("resample: a kernel in C in a program without cgo")
}
