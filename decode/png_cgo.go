//go:build cgo

package decode

// #include "bfs_png.h"
// #cgo noescape bfs_png_decode
// #cgo nocallback bfs_png_decode
import "C"

// pngPath is how C decodes. libpng is slower than our own code on every processor, so only LibJPEG
// stands for it.
func (k *codecState) pngPath() C.int {
	switch k.kernel {
	case LibJPEG:
		return C.BFS_PNG_LIBRARY
	case Portable:
		return C.BFS_PNG_PORTABLE
	}
	return C.BFS_PNG_FAST
}

// png decodes with libdeflate and our own code if possible, and with libpng otherwise.
func (k *codecState) png(dst Image, data []byte, v view) error {
	// libpng reads no further than the region's last row.
	if v.Region.Y+v.Region.H < v.Header.Height && !pngComplete(data) {
		return endsEarly(true)
	}
	to, view := cView(dst, v)
	return k.result(C.bfs_png_decode(&k.c, cBytes(data), C.size_t(len(data)), to, view, 0, k.pngPath()), "libpng")
}

// pngComplete reports whether the file's chunks reach its IEND, for regions that do not need its
// last rows.
func pngComplete(data []byte) bool {
	for chunk := range pngChunks(data, len(pngSignature)) {
		if string(chunk[4:8]) == "IEND" {
			return true
		}
	}
	return false
}

// pngKept estimates what is held after an image. The fast path needs the inflated rows, the same
// again plus some slack to join several IDATs, a row and a strip; libpng needs only the strip.
func pngKept(h Header) int64 {
	const fast = C.BFS_FAST_SCRATCH
	strip := int64(h.Width) * 3 * C.BFS_STRIP
	rows := h.inflated
	if rows == 0 {
		rows = pngInflated(h.Width, h.Height, 32)
	}
	if rows < 0 || rows > fast {
		return strip
	}
	return max(strip, min(fast, 2*rows+C.BFS_JOIN_SLACK+4*int64(h.Width)+1+strip))
}

// valueScratch estimates the memory kept after a mask: for masks, the fast path supports all
// depths.
func valueScratch(h Header) int64 {
	if h.Format != PNG {
		return 0
	}
	h.inflated = pngInflated(h.Width, h.Height, 8*int(h.stored))
	return pngKept(h)
}

// pngScratch estimates what libpng and zlib allocate: two rows as stored, one as converted, and
// the inflate window.
func pngScratch(width, height, bits int) int64 {
	const fixed = 64 << 10
	return fixed + 3*int64(width)*max(int64(bits+7)/8, 4)
}

// storedPNG writes pixels as they are stored, pixel bytes each, the high byte of a sample first;
// each sample of less than 8 bits takes a byte.
func storedPNG(k *codecState, to, data []byte, h Header, pixel int) error {
	if k.kernel == Pure {
		return goStoredPNG(to, data, pixel)
	}
	whole := cRegion(view{Header: h, Region: Region{0, 0, h.Width, h.Height}, Scale: 1})
	whole.channels, whole.dx, whole.dy = C.int32_t(pixel), C.ptrdiff_t(pixel), C.ptrdiff_t(pixel*h.Width)
	return k.result(C.bfs_png_decode(&k.c, cBytes(data), C.size_t(len(data)), cBytes(to), whole, 1, k.pngPath()), "libpng")
}
