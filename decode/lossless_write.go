package decode

import (
	"encoding/binary"
	"fmt"
	"math"
)

// losslessWriter makes a body, row by row, in memory with room for losslessMost and packedSlack. A
// row may lie in the same memory, behind the room for all rows before it.
type losslessWriter struct {
	lossless
	out   []byte
	start int // of the bands
	y     int
	line  []byte // a row's bytes; with 16 bits, the high ones and then the others
	by    [2]rowPacker
}

// A rowPacker packs rows of interleaved planes, one after the other.
type rowPacker interface {
	append(to, pix []byte) []byte
	restart() // before the first row of a band
}

func newLosslessWriter(to []byte, l lossless, kernel Kernel) *losslessWriter {
	w := &losslessWriter{lossless: l, line: make([]byte, l.width*l.planes())}
	w.start = losslessHead + len(l.palette) + losslessEntry*losslessBands(l.height)
	w.out = to[:w.start]
	clear(w.out)
	w.out[0] = l.pixels
	if l.wide {
		w.out[1] = 1
		w.by[1] = newRowPacker(l.width, samplesOf(l.pixels), kernel)
	}
	w.by[0] = newRowPacker(l.width, samplesOf(l.pixels), kernel)
	copy(w.out[losslessHead:], l.palette)
	return w
}

// mark notes where a band ends.
func (w *losslessWriter) mark(band int) error {
	at := len(w.out) - w.start
	if at > math.MaxUint32 {
		return fmt.Errorf("%w: it is too large", ErrNoPackedForm)
	}
	binary.LittleEndian.PutUint32(w.out[losslessHead+len(w.palette)+losslessEntry*band:], uint32(at))
	return nil
}

// row packs the next row, of stored pixels that are step bytes apart.
func (w *losslessWriter) row(pix []byte, step int) error {
	most, planes := w.planes()*losslessRow(w.width)+packedSlack, w.planes()
	if cap(w.out)-len(w.out) < most {
		return fmt.Errorf("%w: no room for a row", ErrDestination)
	}
	if w.y%losslessBand == 0 {
		if w.y > 0 {
			if err := w.mark(w.y/losslessBand - 1); err != nil {
				return err
			}
		}
		for _, p := range w.by {
			if p != nil {
				p.restart()
			}
		}
	}
	w.y++
	switch half := len(w.line) / 2; {
	case w.wide:
		for i := range half {
			w.line[i], w.line[half+i] = pix[2*i], pix[2*i+1]-pix[2*i]
		}
		w.out = w.by[0].append(w.out, w.line[:half])
		w.out = w.by[1].append(w.out, w.line[half:])
		return nil
	case step == planes:
		copy(w.line, pix)
	default:
		for x := range w.width {
			copy(w.line[x*planes:(x+1)*planes], pix[x*step:])
		}
	}
	w.out = w.by[0].append(w.out, w.line)
	return nil
}

// end returns the size of the body, when all rows are packed.
func (w *losslessWriter) end() (int, error) {
	err := w.mark(losslessBands(w.height) - 1)
	n := len(w.out) + packedSlack
	clear(w.out[len(w.out):n])
	return n, err
}

// pack packs an image of stored pixels that are step bytes apart, in rows of stride bytes.
func (l lossless) pack(room []byte, kernel Kernel, pix []byte, stride, step int) (int, error) {
	w := newLosslessWriter(room, l, kernel)
	for y := range l.height {
		if err := w.row(pix[y*stride:][:l.width*step], step); err != nil {
			return 0, err
		}
	}
	return w.end()
}

// packPixels packs the pixels that an image is decoded to.
func (d *Decoder) packPixels(room, data []byte, h Header) (body int, err error) {
	v := view{Header: h, Region: Region{W: h.Width, H: h.Height}, Scale: 1, Orientation: 1}
	if storesGray(data, h.Format) {
		v.Color = Gray
	}
	n := v.Color.Channels()
	pix := Image{Stride: n * h.Width, Height: h.Height, Width: h.Width}
	pix.Pix = room[len(room)-pix.Stride*h.Height:]
	if err := d.codecs[h.Format](&d.state, pix, data, v); err != nil {
		return 0, err
	}
	return d.packImage(room, pix, n)
}

// packImage packs pixels with a number of channels. It is 1 only if all pixels are gray.
func (d *Decoder) packImage(room []byte, m Image, channels int) (body int, err error) {
	l := lossless{pixels: pixelsRGB, width: m.Width, height: m.Height}
	if channels == 1 || allGray(m) {
		l.pixels = pixelsGray
	}
	return l.pack(room, d.state.kernel, m.Pix, m.Stride, channels)
}

// allGray reports whether all pixels of an RGB image are gray.
func allGray(m Image) bool {
	for y := range m.Height {
		for row := m.Pix[y*m.Stride:][:3*m.Width]; len(row) >= 3; row = row[3:] {
			if row[0] != row[1] || row[1] != row[2] {
				return false
			}
		}
	}
	return true
}

// storesGray reports whether a file stores no colours.
func storesGray(data []byte, f Format) bool {
	switch f {
	case PNG:
		_, kind := pngDepth(data)
		return kind&2 == 0 // neither colour nor palette
	case PNM:
		return data[1] == '2' || data[1] == '5'
	}
	return false
}
