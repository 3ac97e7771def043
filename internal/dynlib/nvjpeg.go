//go:build cuda && linux && cgo && (amd64 || arm64)

package dynlib

/*
#include <stdlib.h>
const char *batchfs_open_nvjpeg(const char *library);
*/
import "C"

import (
	"errors"
	"strings"
	"sync"
	"unsafe"
)

// OpenNVJPEG opens the first existing one of libnvjpeg.so.13, .12 and .11. Everything that batchfs
// uses is the same in them. The error says why none can be opened.
var OpenNVJPEG = sync.OnceValue(func() error {
	var reasons []string
	for _, library := range []string{"libnvjpeg.so.13", "libnvjpeg.so.12", "libnvjpeg.so.11"} {
		name := C.CString(library)
		err := asError(C.batchfs_open_nvjpeg(name))
		C.free(unsafe.Pointer(name))
		if err == nil {
			return nil
		}
		reasons = append(reasons, err.Error())
	}
	return errors.New(strings.Join(reasons, "; "))
})
