//go:build !cgo

package resample

import (
	"unsafe"

	"github.com/batchfs/batchfs/internal/kernel"
)

func fastest() Kernel { return kernel.None }

func runNative(Kernel, Sink, unsafe.Pointer, unsafe.Pointer, *job, []byte, int, []byte) {
	panic("resample: a kernel in C in a program without cgo")
}
