//go:build cgo

package decode

// #cgo CFLAGS: -O3 -std=gnu11 -Wall
// #cgo msan CFLAGS: -DBFS_MSAN
// #cgo !static LDFLAGS: -ljpeg -lpng16 -ldeflate -lwebp -lz -lm
// #cgo static LDFLAGS: -l:libjpeg.a -l:libpng16.a -l:libdeflate.a -l:libwebp.a -l:libz.a -lm
// #include "bfs_baseline.h"
// #include "bfs_png.h"
// #include "bfs_tiers.h"
// #cgo noescape bfs_swap
// #cgo nocallback bfs_swap
import "C"

import (
	"fmt"
	"unsafe"
)

var nativeCodecs = codecs{JPEG: (*codecState).jpeg, PNG: (*codecState).png, WebP: (*codecState).webp, BMP: decodeRaw, PNM: decodeRaw, Packed: packedCodec(nativeKinds)}

// codecState is the state that the C codecs keep between images: C memory that they all use.
type codecState struct {
	c      C.bfs_kept
	kernel Kernel
	rule   EntryRule
	given  []EntryPoint
	from   int64 // only this part of the file is there; see SetPart
	to     int64
	room   []byte // where to pack the next JPEG; nil: nowhere
}

// size counts Huffman tables in full, although other decoders may share them.
func (k *codecState) size() int64 {
	n := int64(k.c.size) + 8*int64(k.c.made_room)
	for _, t := range k.c.tables {
		if t != nil {
			n += C.sizeof_bfs_table
		}
	}
	return n
}

// lacks is how much more an image makes a decoder hold than it holds now; all is what it makes one
// hold that holds nothing. Memory that an earlier image has left serves the next one, but not that
// of Huffman tables and entry points, which only JPEGs have.
func lacks(k *codecState, h Header, all int64) int64 {
	buffer := int64(k.c.size)
	if h.Format != JPEG {
		return max(0, all-buffer)
	}
	entries, entriesHeld := entryBytes(h), 8*int64(k.c.made_room)
	tables, tablesHeld := int64(C.BFS_TABLES*C.sizeof_bfs_table), k.size()-buffer-entriesHeld
	return max(0, all-tables-entries-buffer) + tables - tablesHeld + max(0, entries-entriesHeld)
}

// entryBytes is the most that the entry points found in a JPEG take.
func entryBytes(h Header) int64 {
	blocks := int64(h.Width+7) / 8 * int64(h.Height+7) / 8 // at most as many entry points
	return 8 * min(blocks, C.BFS_MOST_ENTRIES)
}

func (k *codecState) free() { C.bfs_free(&k.c) }

// result turns a shim's result code into an error with its message.
func (k *codecState) result(code C.int, library string) error {
	if code == C.BFS_OK {
		return nil
	}
	kind := map[C.int]error{C.BFS_FORMAT: ErrFormat, C.BFS_CORRUPT: ErrCorrupt, C.BFS_MEMORY: ErrMemory, C.BFS_MISMATCH: ErrMismatch, C.BFS_PART: ErrPart}[code]
	return fmt.Errorf("%w: %s: %s", kind, library, C.GoString(&k.c.error[0]))
}

// scratch is an upper estimate of what is kept for an image: JPEG needs two rows of MCUs and
// entry points, PNG often a whole image before unfiltering, WebP a whole image unless all of it
// can be decoded in place.
func scratch(h Header) int64 {
	switch h.Format {
	case JPEG:
		return int64(C.bfs_baseline_most(C.int(h.Width))) + entryBytes(h)
	case PNG:
		return pngKept(h)
	case Packed:
		return max(losslessScratch(h.Width), int64(C.bfs_tiers_memory(C.int(h.Width))))
	case WebP:
		return h.pixels() * 3
	}
	return 0
}

// packedScratch is 0: memory for unpacking is kept.
func packedScratch(uint8, Header) int64 { return 0 }

// cView returns v as a C struct, and the address of its first pixel.
func cView(dst Image, v view) (*C.uint8_t, C.bfs_view) {
	p := place(v.Orientation, v.Region.W, v.Region.H, v.Color.Channels(), dst.Stride)
	view := cRegion(v)
	view.dx, view.dy = C.ptrdiff_t(p.dx), C.ptrdiff_t(p.dy)
	return cBytes(dst.Pix[p.base:]), view
}

// cRegion returns v as a C struct, without its destination.
func cRegion(v view) C.bfs_view {
	return C.bfs_view{
		width: C.int32_t(v.Header.Width), height: C.int32_t(v.Header.Height),
		x: C.int32_t(v.Region.X), y: C.int32_t(v.Region.Y), w: C.int32_t(v.Region.W), h: C.int32_t(v.Region.H),
		scale: C.int32_t(v.Scale), channels: C.int32_t(v.Color.Channels()),
	}
}

func cBytes(b []byte) *C.uint8_t { return (*C.uint8_t)(unsafe.Pointer(unsafe.SliceData(b))) }

// swapBGR turns whole BGR pixels into RGB. It takes most of the time of reading most BMPs.
func swapBGR(to, from []byte) {
	if n := len(to) / 3; n > 0 {
		C.bfs_swap(cBytes(to), cBytes(from[:3*n]), C.size_t(n))
	}
}
