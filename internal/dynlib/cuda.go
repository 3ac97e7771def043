//go:build cuda && linux && cgo && (amd64 || arm64)

package dynlib

/*
#include <stdlib.h>
const char *batchfs_open_cuda(const char *library);
int batchfs_init_cuda(void);
*/
import "C"

import (
	"sync"
	"unsafe"
)

// OpenCUDA opens libcuda.so.1; the error says why there is none.
var OpenCUDA = sync.OnceValue(func() error {
	name := C.CString("libcuda.so.1")
	defer C.free(unsafe.Pointer(name))
	return asError(C.batchfs_open_cuda(name))
})

// InitCUDA initializes the driver, after OpenCUDA, and returns CUDA's result: 0 if it worked. It
// can take a second.
var InitCUDA = sync.OnceValue(func() int { return int(C.batchfs_init_cuda()) })
