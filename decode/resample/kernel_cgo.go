//go:build cgo

package resample

// #cgo CFLAGS: -O3 -std=gnu11 -Wall
// #include "bfs_resample.h"
// #cgo noescape bfs_resize
// #cgo nocallback bfs_resize
import "C"

import (
	"sync"
	"unsafe"

	"github.com/batchfs/batchfs/internal/kernel"
)

var fastest = sync.OnceValue(func() kernel.Kernel { return kernel.Portable + kernel.Kernel(C.bfs_fastest_kernel()) })

// runNative makes and delivers all rows, with a single call if the sink is in C.
func runNative(k kernel.Kernel, sink Sink, put, ctx unsafe.Pointer, j *job, from []byte, stride int, scratch []byte) {
	c := C.bfs_job{
		height: C.int32_t(j.height), width: C.int32_t(j.width), channels: C.int32_t(j.channels),
		rows: C.int32_t(j.rows), columns: C.int32_t(j.columns),
		taps_y: C.int32_t(j.y.taps), taps_x: C.int32_t(j.x.taps),
		shift_y: C.int32_t(j.y.shift), shift_x: C.int32_t(j.x.shift), stride: C.ptrdiff_t(stride),
		at_y: C.size_t(j.atY), weights_y: C.size_t(j.weightsY), at_x: C.size_t(j.atX), weights_x: C.size_t(j.weightsX),
		arranged: C.size_t(j.arranged), line: C.size_t(j.line), out: C.size_t(j.out),
	}
	pix, memory := (*C.uint8_t)(unsafe.Pointer(unsafe.SliceData(from))), (*C.uint8_t)(unsafe.Pointer(unsafe.SliceData(scratch)))
	level := C.int(k - kernel.Portable)
	if put != nil {
		C.bfs_resize(c, level, pix, memory, 0, c.height, put, ctx)
		return
	}
	row := scratch[j.out:][:j.width*j.channels]
	for y := range c.height {
		C.bfs_resize(c, level, pix, memory, y, y+1, nil, nil)
		sink.PutRow(int(y), row)
	}
}
