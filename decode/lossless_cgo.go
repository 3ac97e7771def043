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

var nativeKinds = packedKinds{kindLossless: (*kept).lossless, kindCoefficients: (*kept).coefficients}

// lossless decodes band by band.
func (k *kept) lossless(dst Image, p packed, v view) error {
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
			width: C.int32_t(l.width), pixels: C.int32_t(l.pixels), skip: C.int32_t(y % losslessBand), rows: C.int32_t(n),
			x: view.x, w: view.w, channels: view.channels, dx: view.dx, dy: view.dy,
		}
		if k.kernel >= AVX2 {
			b.avx2 = 1
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

// losslessScratch is the memory for a row of each plane, one of colour, and a strip of rows.
func losslessScratch(width int) int64 {
	return int64(losslessPadded(width)+32)*4 + int64(width)*3*(C.BFS_STRIP+1)
}

// rowPacker packs rows in C.
type rowPacker struct {
	width, planes int
	above, work   []byte
}

func newRowPacker(width, planes int) *rowPacker {
	padded := losslessPadded(width)
	return &rowPacker{width, planes, make([]byte, planes*padded), make([]byte, 4*padded)}
}

func (p *rowPacker) restart() { clear(p.above) }

func (p *rowPacker) append(to, pix []byte) []byte {
	padded := losslessPadded(p.width)
	const slack = 8 // C writes eight bytes where it needs fewer
	to = slices.Grow(to, p.planes*(1+padded/losslessGroup/2+padded)+slack)
	end := to[len(to):cap(to)]
	n := C.bfs_lossless_pack(cBytes(end), cBytes(pix), C.int(p.width), C.int(p.planes), cBytes(p.above), cBytes(p.work))
	return to[:len(to)+int(n)]
}
