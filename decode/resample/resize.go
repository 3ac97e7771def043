package resample

import (
	"errors"
	"fmt"
	"unsafe"

	"github.com/batchfs/batchfs/internal/kernel"
)

// errGeometry is the error of Resize: a caller's mistake.
var errGeometry = errors.New("resample: the transform does not fit the image or the scratch memory")

// Image is a source: rows of 8-bit pixels, channels interleaved, Stride bytes from one row to
// the next. The caller owns it; Resize only reads it, within Transform.Source.
type Image struct {
	Pix                             []byte
	Stride, Height, Width, Channels int // Channels: 1 or 3
}

// Sink takes the result's rows, from top to bottom. row holds width·channels bytes and is valid
// until PutRow returns.
type Sink interface {
	PutRow(y int, row []byte)
}

// nativeSink is an optional interface of a Sink: a C function that takes the rows, void
// (*put)(void *ctx, int y, const uint8_t *row), with the same meaning, which avoids a call into
// Go for each row. put is nil if there is no such function.
type nativeSink interface {
	Native() (put, ctx unsafe.Pointer)
}

// rowsSink is an optional interface of a Sink: it takes n of the source's rows at once, stride
// bytes apart.
type rowsSink interface {
	PutRows(y, n int, rows []byte, stride int)
}

// ScratchBytes is the memory that Resize needs for an image of 1 or 3 channels.
func ScratchBytes(t Transform, channels int) int {
	if t.Copies() || !t.Y.sound() || !t.X.sound() {
		return 0
	}
	return newJob(t, channels).scratch
}

// Resize makes the result's rows and passes them to the sink. t must be in the coordinates of
// src: see Transform.Reduced and Moved. scratch must have at least ScratchBytes; its contents
// before and after do not matter. Nothing is allocated. Errors occur before the first row.
func Resize(sink Sink, src Image, t Transform, scratch []byte, k kernel.Kernel) error {
	if err := fits(src, t); err != nil {
		return err
	}
	if t.Copies() {
		copyRows(sink, src.Pix[int(t.Y.Start)*src.Stride+int(t.X.Start)*src.Channels:], src, t)
		return nil
	}
	j := newJob(t, src.Channels)
	if len(scratch) < j.scratch {
		return fmt.Errorf("%w: %d bytes are needed, there are %d", errGeometry, j.scratch, len(scratch))
	}
	scratch = scratch[-uintptr(unsafe.Pointer(unsafe.SliceData(scratch)))&(alignment-1):]
	from := src.Pix[j.top*src.Stride+j.left*j.channels:]
	if j.wide {
		j.resizeWide(sink, t, from, src.Stride, scratch)
		return nil
	}
	j.prepare(t, scratch)
	if k = k.AtMost(fastest()); k != kernel.None {
		var put, ctx unsafe.Pointer
		if n, ok := sink.(nativeSink); ok {
			put, ctx = n.Native()
		}
		runNative(k, sink, put, ctx, &j, from, src.Stride, scratch)
		return nil
	}
	for y := range j.height {
		sink.PutRow(y, j.resizeRow(y, from, src.Stride, scratch))
	}
	return nil
}

func copyRows(sink Sink, from []byte, src Image, t Transform) {
	used := t.X.N * src.Channels
	if s, ok := sink.(rowsSink); ok {
		s.PutRows(0, t.Y.N, from[:(t.Y.N-1)*src.Stride+used], src.Stride)
		return
	}
	for y := range t.Y.N {
		sink.PutRow(y, from[y*src.Stride:][:used])
	}
}

// fits verifies that nothing will be read outside the image.
func fits(src Image, t Transform) error {
	if src.Channels != 1 && src.Channels != 3 || !t.Y.sound() || !t.X.sound() {
		return fmt.Errorf("%w: %+v, %+v, %d channels", errGeometry, t.Y, t.X, src.Channels)
	}
	y, x, h, w := t.Source()
	row := (x + w) * src.Channels
	if y < 0 || x < 0 || y+h > src.Height || x+w > src.Width ||
		src.Stride < src.Width*src.Channels || len(src.Pix) < row || (len(src.Pix)-row)/src.Stride < y+h-1 {
		return fmt.Errorf("%w: rows %d to %d and columns %d to %d of %dx%d, %d bytes in rows of %d", errGeometry,
			y, y+h, x, x+w, src.Height, src.Width, len(src.Pix), src.Stride)
	}
	return nil
}
