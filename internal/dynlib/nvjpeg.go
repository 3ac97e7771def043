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

// OpenNVJPEG opens the first that there is of libnvjpeg.so.13, .12 and .11, in which all that
// batchfs uses is the same. The error says why none of them can be opened.
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
