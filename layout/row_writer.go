package layout

import (
	"fmt"
	"runtime"
	"unsafe"

	"github.com/batchfs/batchfs/internal/kernel"
)

// A Writer puts rows of pixels into slots of a batch: as elements, in the slot's order of axes,
// mirrored if requested. Each element is written once, in its final place. A Writer belongs to
// one worker; until Close it holds a few kilobytes outside the Go heap if the build has C.
type Writer struct {
	convert *Converter
	native  native // the sample as C sees it; empty if the kernel is Go's

	slot          []byte
	spec          Spec
	height, width int
	flip          bool
	fill          uint8
	direct        bool

	// Where an element of the pixel in row y and column x is: y*pitch + x*step + channel*plane.
	pitch, step, plane int

	pinner runtime.Pinner // keeps a slot on the Go heap in place for C
}

// NewWriter returns a Writer that uses a kernel.
func NewWriter(c *Converter, k kernel.Kernel) *Writer {
	w := &Writer{convert: c}
	w.native.open(c, k.AtMost(fastest()))
	return w
}

// Close frees the memory outside the Go heap. Closing twice is allowed, using a closed Writer is
// not.
func (w *Writer) Close() {
	w.release()
	w.native.close()
}

// Begin starts a sample. slot is one sample's part of a tensor as described by s and belongs to
// the Writer until End. The pixels that follow are height x width and go to its top left,
// mirrored within that area if flip is set. The rest of the slot gets the value fill. A sample
// that was begun and not ended is dropped.
//
// Begin panics if the slot does not fit s, s does not fit the Converter, or the pixels do not
// fit the slot.
func (w *Writer) Begin(slot []byte, s Spec, height, width int, flip bool, fill uint8) {
	w.convert.mustFit(slot, s)
	if height < 0 || width < 0 || height > s.H || width > s.W {
		panic(fmt.Sprintf("layout: %dx%d pixels in a slot of %dx%d", height, width, s.H, s.W))
	}
	w.release()
	w.slot, w.spec, w.height, w.width, w.flip, w.fill = slot, s, height, width, flip, fill
	w.direct = w.convert.Direct(s.Order, flip)
	w.plane = s.DType.Size()
	w.step = s.C * w.plane
	if s.Order == NCHW {
		w.step = w.plane
		w.plane *= s.H * s.W
	}
	w.pitch = s.W * w.step
	if len(slot) > 0 && w.native.there() {
		// This does nothing to a slot in mapped memory.
		w.pinner.Pin(unsafe.SliceData(slot))
		w.native.begin(w)
	}
}

// PutRow takes row y of the pixels, interleaved, at least width*C bytes. Rows may come in any
// order. A row outside the sample panics.
func (w *Writer) PutRow(y int, row []byte) { w.putRows(y, 1, row, 0) }

// putRows takes n rows, starting with row y; their first bytes are stride bytes apart.
func (w *Writer) putRows(y, n int, rows []byte, stride int) {
	if n == 0 {
		return
	}
	used := w.width * w.convert.channels
	if y < 0 || n < 0 || stride < 0 || n > w.height-y {
		panic(fmt.Sprintf("layout: rows %d to %d of %d", y, y+n-1, w.height))
	}
	rows = rows[:(n-1)*stride+used]
	switch {
	case used == 0:
	case w.direct:
		for i := range n {
			copy(w.slot[(y+i)*w.pitch:][:used], rows[i*stride:])
		}
	case w.native.there():
		w.native.put(y, n, rows, stride)
	default:
		for i := range n {
			w.putRow(y+i, rows[i*stride:][:used])
		}
	}
}

// End fills the margins and releases the slot. It does not check which rows were written.
func (w *Writer) End() {
	w.convert.fillMargins(w.slot, w.spec, w.height, w.width, w.fill)
	w.release()
}

// release drops the sample.
func (w *Writer) release() {
	w.native.end()
	w.pinner.Unpin()
	w.slot, w.height, w.width = nil, 0, 0
	w.spec = Spec{}
}

// Native returns what C code needs to deliver rows by itself, between Begin and End:
//
//	void (*put)(void *ctx, int y, const uint8_t *row)
//
// The row must be readable for width*C bytes during the call; a row outside the sample, or after
// End, is ignored. ctx is C memory that does not move until Close, so both values may be fetched
// once and kept. They are nil if the build has no C, or the kernel is Go's.
func (w *Writer) Native() (put, ctx unsafe.Pointer) { return w.native.callback() }
