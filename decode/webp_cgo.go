//go:build cgo

package decode

// #include "bfs_decode.h"
// #cgo noescape bfs_webp_decode
// #cgo nocallback bfs_webp_decode
import "C"

import "unsafe"

// webp decodes with libwebp.
func (k *codecState) webp(dst Image, data []byte, v view) error {
	w, err := readWebP(data, true)
	if err != nil {
		return err
	}
	inner := w.image.shown(v.Region)
	if inner != v.Region {
		height, width := v.size()
		for y := range height {
			clear(dst.Pix[y*dst.Stride:][:width*v.Color.Channels()])
		}
	}
	if inner == (Region{}) {
		return nil
	}
	to, view := cView(dst, v)
	to = (*C.uint8_t)(unsafe.Add(unsafe.Pointer(to), (inner.X-v.Region.X)*int(view.dx)+(inner.Y-v.Region.Y)*int(view.dy)))
	view.width, view.height = C.int32_t(w.image.width), C.int32_t(w.image.height)
	view.x, view.y = C.int32_t(inner.X-w.image.x), C.int32_t(inner.Y-w.image.y)
	view.w, view.h = C.int32_t(inner.W), C.int32_t(inner.H)
	data = data[w.image.from:w.image.to]
	return k.result(C.bfs_webp_decode(&k.c, cBytes(data), C.size_t(len(data)), C.size_t(w.h.Scratch), to, view), "libwebp")
}

// shown is the part of a region of the canvas that the image covers.
func (i *webpImage) shown(r Region) Region {
	x, y := max(r.X, i.x), max(r.Y, i.y)
	w, h := min(r.X+r.W, i.x+i.width)-x, min(r.Y+r.H, i.y+i.height)-y
	if w <= 0 || h <= 0 {
		return Region{}
	}
	return Region{x, y, w, h}
}

// webpScratch estimates what libwebp allocates: a few rows for lossy images, all pixels and the
// images of their transforms for lossless ones.
func webpScratch(width, height int, lossless bool) int64 {
	const fixed = 1 << 20 // mostly prefix-code tables
	if lossless {
		return fixed + 5*int64(width)*int64(height) + 128*int64(width)
	}
	return fixed/4 + 256*int64(width)
}
