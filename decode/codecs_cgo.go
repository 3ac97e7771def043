//go:build cgo

package decode

// #cgo CFLAGS: -O3 -std=gnu11 -Wall
// #cgo !static LDFLAGS: -ljpeg -lpng16 -ldeflate -lwebp -lz -lm
// #cgo static LDFLAGS: -l:libjpeg.a -l:libpng16.a -l:libdeflate.a -l:libwebp.a -l:libz.a -lm
// #include "bfs_decode.h"
// #include "bfs_jpeg.h"
// #include "bfs_png.h"
// #include "bfs_webp.h"
import "C"

import (
	"fmt"
	"sync"
	"unsafe"
)

// nativeCodecs returns this build's codecs for one Decoder.
func nativeCodecs() [numFormats]Codec {
	return [numFormats]Codec{JPEG: new(cJPEG), PNG: new(cPNG), WebP: new(cWebP), BMP: bmpCodec{}, PNM: pnmCodec{}}
}

// nativeScratch: JPEG keeps at most a strip of rows, PNG often a whole image before unfiltering,
// WebP a whole image if it cannot be decoded in place.
func nativeScratch(h Header, c Color, orientation uint8) int64 {
	switch h.Format {
	case JPEG:
		return int64(h.Width) * 4 * C.BFS_STRIP
	case PNG:
		return pngHeld(h)
	case WebP:
		if c == Gray || orientation != 1 && orientation != 4 {
			return h.pixels() * 3
		}
	}
	return 0
}

// Version names the decoders that produce a Decoder's pixels, in the versions loaded at run
// time, which may differ from those compiled against. libdeflate and zlib are left out because
// their output is fully determined by their input.
func Version() string { return version() }

var version = sync.OnceValue(func() string {
	var jpeg [64]C.char
	C.bfs_jpeg_version(&jpeg[0], C.size_t(len(jpeg)))
	webp := int(C.bfs_webp_version())
	return fmt.Sprintf("libjpeg-turbo %s, libpng %s, libwebp %d.%d.%d",
		C.GoString(&jpeg[0]), C.GoString(C.bfs_png_version()), webp>>16, webp>>8&255, webp&255)
})

// cView returns v as a C struct, and the address of its first pixel.
func cView(dst Image, v View) (*C.uint8_t, C.bfs_view) {
	p := place(v.Orientation, v.Region.W, v.Region.H, v.Color.Channels(), dst.Stride)
	return cBytes(dst.Pix[p.base:]), C.bfs_view{
		width: C.int32_t(v.Header.Width), height: C.int32_t(v.Header.Height),
		x: C.int32_t(v.Region.X), y: C.int32_t(v.Region.Y), w: C.int32_t(v.Region.W), h: C.int32_t(v.Region.H),
		scale: C.int32_t(v.Scale), channels: C.int32_t(v.Color.Channels()),
		dx: C.ptrdiff_t(p.dx), dy: C.ptrdiff_t(p.dy),
	}
}

func cBytes(b []byte) *C.uint8_t { return (*C.uint8_t)(unsafe.Pointer(unsafe.SliceData(b))) }

// swapBGR turns whole BGR pixels into RGB. It takes most of the time of reading most BMPs.
func swapBGR(to, from []byte) {
	if n := len(to) / 3; n > 0 {
		C.bfs_swap(cBytes(to), cBytes(from[:3*n]), C.size_t(n))
	}
}

// cHandle is what a C codec keeps between images: C memory.
type cHandle struct{ c C.bfs_handle }

func (h *cHandle) Scratch() int64 { return int64(h.c.size) }
func (h *cHandle) Trim()          { C.bfs_trim(&h.c) }
func (h *cHandle) Close()         { h.Trim() }

// result turns a shim's result code into an error with the handle's message.
func (h *cHandle) result(code C.int, library string) error {
	if code == C.BFS_OK {
		return nil
	}
	kind := ErrCorrupt
	switch code {
	case C.BFS_FORMAT:
		kind = ErrFormat
	case C.BFS_MEMORY:
		kind = ErrMemory
	case C.BFS_MISMATCH:
		kind = ErrMismatch
	}
	return fmt.Errorf("%w: %s: %s", kind, library, C.GoString(&h.c.error.text[0]))
}
