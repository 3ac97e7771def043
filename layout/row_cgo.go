//go:build cgo

package layout

// #cgo CFLAGS: -std=gnu11 -Wall
// #cgo noescape bfs_rows_put
// #cgo nocallback bfs_rows_put
// #cgo noescape bfs_rows_end
// #cgo nocallback bfs_rows_end
// #cgo noescape bfs_split3
// #cgo nocallback bfs_split3
// #cgo noescape bfs_join3
// #cgo nocallback bfs_join3
// #include <stdlib.h>
// #include "row.h"
import "C"

import (
	"encoding/binary"
	"math"
	"sync"
	"unsafe"

	"github.com/batchfs/batchfs/internal/kernel"
)

// fastest returns the best kernel for this processor.
var fastest = sync.OnceValue(func() kernel.Kernel { return kernel.None + kernel.Kernel(C.bfs_fastest()) })

// native is a Writer's context in C. It holds the slot from begin to end, during which a slot in
// Go memory is pinned.
type native struct{ ctx *C.bfs_rows }

func (n *native) there() bool { return n.ctx != nil }

func (n *native) open(c *Converter, k kernel.Kernel) {
	if k == kernel.None {
		return
	}
	n.ctx = (*C.bfs_rows)(C.malloc(C.sizeof_bfs_rows)) // never nil
	*n.ctx = C.bfs_rows{
		kernel: C.int32_t(k - kernel.None), dtype: C.int32_t(c.dtype), size: C.int32_t(c.dtype.Size()), channels: C.int32_t(c.channels),
	}
	for k := range c.channels {
		for v, bits := range c.bits[k] {
			var element [4]byte
			binary.LittleEndian.PutUint32(element[:], bits)
			n.ctx.table[k][v] = *(*[4]C.uint8_t)(unsafe.Pointer(&element))
		}
	}
	for i := range n.ctx.mean {
		n.formula(i, c.norm.Mean[i%c.channels], c.norm.Std[i%c.channels])
	}
	C.bfs_rows_ready(n.ctx)
}

// formula sets the constants of lane i from a mean and a std. The mean is rounded to a multiple
// that makes its difference to every value exact in float32; a second constant holds the
// rounding error, and another that of 1/std as a float32. C compares the results with the tables
// before it uses the formula.
func (n *native) formula(i int, mean, std float64) {
	near := math.Round(mean*(1<<16)) / (1 << 16)
	scale := 1 / std
	n.ctx.mean[i] = C.float(near)
	n.ctx.scale[i] = C.float(scale)
	n.ctx.scale_low[i] = C.float(scale - float64(float32(scale)))
	n.ctx.offset_exactly[i] = C.float((near - mean) * scale)
	n.ctx.offset_nearly[i] = C.float(-mean * scale)
}

func (n *native) close() {
	C.free(unsafe.Pointer(n.ctx))
	n.ctx = nil
}

func (n *native) begin(w *Writer) {
	r := n.ctx
	r.slot = bytesOf(w.slot)
	r.height, r.width = C.int32_t(w.height), C.int32_t(w.width)
	r.planar, r.flip = C.bool(w.spec.Order == NCHW && w.spec.C > 1), C.bool(w.flip)
	r.pitch, r.plane, r.step = C.size_t(w.pitch), C.size_t(w.plane), C.size_t(w.step)
}

func (n *native) end() {
	if n.ctx != nil {
		C.bfs_rows_end(n.ctx)
	}
}

func (n *native) put(y, count int, rows []byte, stride int) {
	C.bfs_rows_put(n.ctx, C.int(y), C.int(count), bytesOf(rows), C.size_t(stride))
}

func (n *native) callback() (put, ctx unsafe.Pointer) {
	if n.ctx == nil {
		return nil, nil
	}
	return C.bfs_rows_deliver, unsafe.Pointer(n.ctx)
}

// turn3 turns n pixels of three elements into planes, or back; it returns false if C did not do
// it.
func turn3(k kernel.Kernel, to Order, dst, src []byte, n, size int) bool {
	switch {
	case n == 0 || k.AtMost(fastest()) < kernel.SSSE3:
		return false
	case to == NCHW:
		return C.bfs_split3(bytesOf(dst), bytesOf(src), C.size_t(n), C.int(size)) != 0
	}
	return C.bfs_join3(bytesOf(dst), bytesOf(src), C.size_t(n), C.int(size)) != 0
}

func bytesOf(b []byte) *C.uint8_t { return (*C.uint8_t)(unsafe.Pointer(unsafe.SliceData(b))) }
