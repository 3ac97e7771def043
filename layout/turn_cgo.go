//go:build cgo

package layout

// #cgo noescape bfs_split3
// #cgo nocallback bfs_split3
// #cgo noescape bfs_join3
// #cgo nocallback bfs_join3
// #include "row.h"
import "C"

import "unsafe"

// nativeSplit3 turns n pixels of three elements into planes; it returns false if C did not do
// it.
func nativeSplit3(dst, src []byte, n, size int) bool {
	if n == 0 || selected() < ssse3 {
		return false
	}
	return C.bfs_split3(bytesOf(dst), bytesOf(src), C.size_t(n), C.int(size)) != 0
}

// nativeJoin3 is the inverse of nativeSplit3.
func nativeJoin3(dst, src []byte, n, size int) bool {
	if n == 0 || selected() < ssse3 {
		return false
	}
	return C.bfs_join3(bytesOf(dst), bytesOf(src), C.size_t(n), C.int(size)) != 0
}

func bytesOf(b []byte) *C.uint8_t { return (*C.uint8_t)(unsafe.Pointer(unsafe.SliceData(b))) }
