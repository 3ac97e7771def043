//go:build cgo

package decode

// #include "bfs_decode.h"
import "C"

import "unsafe"

// swapBGR turns whole BGR pixels into RGB. It takes most of the time of reading most BMPs.
func swapBGR(to, from []byte) {
	n := len(to) / 3
	if n == 0 {
		return
	}
	from = from[:3*n]
	C.bfs_swap((*C.uint8_t)(unsafe.Pointer(unsafe.SliceData(to))), (*C.uint8_t)(unsafe.Pointer(unsafe.SliceData(from))), C.size_t(n))
}
