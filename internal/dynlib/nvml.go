//go:build linux && cgo && (amd64 || arm64)

package dynlib

/*
#cgo LDFLAGS: -ldl
#include <stdlib.h>
const char *batchfs_open_nvml(const char *library);
*/
import "C"

import (
	"errors"
	"sync"
	"unsafe"
)

// OpenNVML opens libnvidia-ml.so.1, the library that go-nvml also opens. The error says why it
// cannot.
var OpenNVML = sync.OnceValue(func() error {
	name := C.CString("libnvidia-ml.so.1")
	defer C.free(unsafe.Pointer(name))
	return asError(C.batchfs_open_nvml(name))
})

// asError copies a message from C; NULL becomes nil.
func asError(message *C.char) error {
	if message == nil {
		return nil
	}
	return errors.New(C.GoString(message))
}
