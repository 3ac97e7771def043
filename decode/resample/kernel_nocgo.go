//go:build !cgo

package resample

import (
	"unsafe"

	"github.com/batchfs/batchfs/internal/kernel"
)

func fastest() kernel.Kernel { return kernel.None }

func runNative(kernel.Kernel, Sink, unsafe.Pointer, unsafe.Pointer, *job, []byte, int, []byte) {
	panic("resample: a kernel in C in a program without cgo")
}
