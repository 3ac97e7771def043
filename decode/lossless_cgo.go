//go:build cgo

package decode

// #include "bfs_lossless.h"
// #cgo noescape bfs_lossless_band
// #cgo nocallback bfs_lossless_band
// #cgo noescape bfs_lossless_pack
// #cgo nocallback bfs_lossless_pack
import "C"

import (
	"slices"
	"unsafe"
)

var nativeKinds = packedKinds{kindLossless: (*codecState).lossless, kindCoefficients: (*codecState).coefficients}

// lossless decodes band by band.
func (k *codecState) lossless(dst Image, p packed, v view) error {
	l, err := openLossless(&p)
	if err != nil {
		return err
	}
	to, view := cView(dst, v)
	end := v.Region.Y + v.Region.H
	for y := v.Region.Y; y < end; {
		i := y / losslessBand
		from, err := l.band(i)
		if err != nil {
			return err
		}
		n := min(end, (i+1)*losslessBand) - y
		b := C.bfs_band{
			width: C.int32_t(l.width), pixels: C.int32_t(l.pixels), wide: cBool(l.wide), skip: C.int32_t(y % losslessBand), rows: C.int32_t(n),
			x: view.x, w: view.w, channels: view.channels, dx: view.dx, dy: view.dy, avx2: cBool(k.kernel >= AVX2),
		}
		at := (*C.uint8_t)(unsafe.Add(unsafe.Pointer(to), (y-v.Region.Y)*int(view.dy)))
		code := C.bfs_lossless_band(&k.c, cBytes(from), C.size_t(len(from)), cBytes(l.palette), at, b)
		if err := k.result(code, "packed rows"); err != nil {
			return err
		}
		y += n
	}
	return nil
}

// losslessScratch is the memory for a row of each plane, two of colour, and a strip of rows.
func losslessScratch(width int) int64 {
	return int64(losslessPadded(width)+2*losslessGroup)*8 + int64(width)*3*(C.BFS_STRIP+2)
}

// nativePacker packs rows in C.
type nativePacker struct {
	width, planes    int
	row, above, work []byte
	avx2             C.int32_t
}

func newRowPacker(width, planes int, kernel Kernel) rowPacker {
	if kernel == Pure {
		return newGoRowPacker(width, planes)
	}
	padded := losslessPadded(width)
	size := planes * (2*losslessGroup + padded)
	return &nativePacker{
		width, planes, make([]byte, size), make([]byte, size), make([]byte, 3*padded/losslessGroup/2), cBool(kernel >= AVX2),
	}
}

func cBool(b bool) C.int32_t {
	if b {
		return 1
	}
	return 0
}

func (p *nativePacker) restart() { clear(p.above) }

func (p *nativePacker) append(to, pix []byte) []byte {
	const slack = 8 // C writes eight bytes where it needs fewer
	to = slices.Grow(to, p.planes*losslessRow(p.width)+slack)
	end := to[len(to):cap(to)]
	n := C.bfs_lossless_pack(cBytes(end), cBytes(pix), C.int(p.width), C.int(p.planes), cBytes(p.row), cBytes(p.above), cBytes(p.work), C.int(p.avx2))
	p.row, p.above = p.above, p.row
	return to[:len(to)+int(n)]
}
