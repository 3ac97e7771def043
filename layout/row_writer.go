package layout

import (
	"fmt"
	"runtime"
	"unsafe"
)

// A Writer puts rows of pixels into slots of a batch: as elements, in the slot's
// order of axes, mirrored if asked. Each element is written once, where it stays. A
// Writer belongs to one worker; it holds a few kilobytes outside the Go heap where
// the build has C, until Close.
type Writer struct {
	convert *Converter
	kernel  kernel
	native  native // what C knows of the sample; empty where the kernel is Go's

	slot          []byte
	spec          Spec
	height, width int
	flip          bool
	fill          uint8
	direct        bool
	pinner        runtime.Pinner // holds a slot on the Go heap in place for C
}

// NewWriter returns a Writer that uses the kernel that is selected now.
func NewWriter(c *Converter) *Writer {
	w := &Writer{convert: c, kernel: selected()}
	w.native.open(c, w.kernel)
	return w
}

// Close gives the memory back that is not Go's. Closing twice is allowed, using a
// closed Writer is not.
func (w *Writer) Close() {
	w.release()
	w.native.close()
}

// Begin starts a sample. slot is one sample's part of a tensor as s describes it
// and belongs to the Writer until End; the pixels that will come are height x width
// and stand at its top left, mirrored in themselves with flip. What remains of the
// slot gets the value fill. A sample that was begun and not ended is forgotten.
//
// Begin panics where the slot does not fit s, or s not the Converter, or the pixels
// not the slot.
func (w *Writer) Begin(slot []byte, s Spec, height, width int, flip bool, fill uint8) {
	w.convert.mustFit(slot, s)
	if height < 0 || width < 0 || height > s.H || width > s.W {
		panic(fmt.Sprintf("layout: %dx%d pixels in a slot of %dx%d", height, width, s.H, s.W))
	}
	w.release()
	w.slot, w.spec, w.height, w.width, w.flip, w.fill = slot, s, height, width, flip, fill
	w.direct = w.convert.Direct(s.Order, flip)
	if len(slot) > 0 && w.native.there() {
		// Nothing happens here to a slot that is mapped memory.
		w.pinner.Pin(unsafe.SliceData(slot))
		w.native.begin(w)
	}
}

// PutRow takes row y of the pixels, interleaved, width*C bytes at least. Rows may
// come in any order. A row outside the sample panics.
func (w *Writer) PutRow(y int, row []byte) { w.PutRows(y, 1, row, 0) }

// PutRows takes n rows from row y on, whose first bytes are stride bytes apart.
func (w *Writer) PutRows(y, n int, rows []byte, stride int) {
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
		w.copyRows(y, n, rows, stride, used)
	case w.native.there():
		w.native.put(y, n, rows, stride)
	default:
		for i := range n {
			w.putRow(y+i, rows[i*stride:][:used])
		}
	}
}

// copyRows is PutRows where rows are what the slot holds.
func (w *Writer) copyRows(y, n int, rows []byte, stride, used int) {
	pitch := w.spec.W * w.convert.channels
	if stride == used && used == pitch {
		copy(w.slot[y*pitch:], rows)
		return
	}
	for i := range n {
		copy(w.slot[(y+i)*pitch:][:used], rows[i*stride:])
	}
}

// End fills the margins and lets go of the slot. It does not know which rows came.
func (w *Writer) End() {
	w.convert.fillMargins(w.slot, w.spec, w.height, w.width, w.fill)
	w.release()
}

// release forgets the sample.
func (w *Writer) release() {
	w.native.end()
	w.pinner.Unpin()
	w.slot, w.height, w.width = nil, 0, 0
	w.spec = Spec{}
}

// Native returns what C code needs to deliver rows by itself, between Begin and
// End:
//
//	void (*put)(void *ctx, int y, const uint8_t *row)
//
// The row is readable for width*C bytes and needed no longer than the call; a row
// outside the sample, or of one that was ended, is ignored. ctx is memory in C that
// stays where it is until Close, so both may be asked for once and kept. They are
// nil where the build has no C, or the selected kernel is Go's.
func (w *Writer) Native() (put, ctx unsafe.Pointer) { return w.native.callback() }
