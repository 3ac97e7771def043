package decode

import (
	"encoding/binary"
	"fmt"
	"math/bits"
)

// bmpCodec reads BMP: 1 to 32 bits per pixel, palettes, bit fields, RLE. Missing palette
// entries are black; channels that are not 8 bits wide are scaled and rounded.
type bmpCodec struct{ stateless }

func (bmpCodec) Header(data []byte, complete bool) (Header, error) { return bmpHeader(data, complete) }

func (bmpCodec) Decode(dst Image, data []byte, v View) error {
	l, err := readBMPLayout(data, true)
	if err != nil {
		return err
	}
	if l.width != v.Header.Width || l.height != v.Header.Height {
		return fmt.Errorf("%w: it is %dx%d", ErrMismatch, l.width, l.height)
	}
	if l.compressed() {
		return decodeRLE(dst, data[min(l.pixels, int64(len(data))):], v, &l)
	}
	if l.pixels+l.pixelBytes() > int64(len(data)) {
		return endsEarly(true)
	}
	rows := newBMPRows(&l, v)
	stride := int(l.rowBytes())
	n := v.Region.W * v.Color.Channels()
	for y := range v.Region.H {
		from := v.Region.Y + y
		if !l.topDown {
			from = l.height - 1 - from
		}
		rows.read(dst.Pix[y*dst.Stride:][:n], data[int(l.pixels)+from*stride:][:stride])
	}
	return nil
}

// colorTable is a palette in the requested colour; for gray, only the first byte is used.
type colorTable [256][3]uint8

func (l *bmpLayout) table(c Color) (t colorTable) {
	for i := 0; i < len(t) && (i+1)*l.paletteEntry <= len(l.palette); i++ {
		e := l.palette[i*l.paletteEntry:]
		t[i] = [3]uint8{e[2], e[1], e[0]}
		if c == Gray {
			t[i][0] = gray601(e[2], e[1], e[0])
		}
	}
	return t
}

// bmpRows turns stored rows into the region's pixels. It lives on the stack.
type bmpRows struct {
	layout *bmpLayout
	x      int // where the region starts
	gray   bool
	table  colorTable
	fields bitFields
}

func newBMPRows(l *bmpLayout, v View) bmpRows {
	r := bmpRows{layout: l, x: v.Region.X, gray: v.Color == Gray}
	switch l.bits {
	case 1, 2, 4, 8:
		r.table = l.table(v.Color)
	case 16, 32:
		r.fields = newBitFields(l.masks)
	}
	return r
}

func (r *bmpRows) read(to, from []byte) {
	bits := r.layout.bits
	whole := bits == 24 || bits == 32 && r.layout.masks == [3]uint32{0xff0000, 0xff00, 0xff}
	switch {
	case bits <= 8 && r.gray:
		r.layout.indexedGray(to, from, r.x, &r.table)
	case bits <= 8:
		r.layout.indexed(to, from, r.x, &r.table)
	case whole && r.gray:
		weigh(to, from[bits/8*r.x:], bits/8, 2, 0)
	case bits == 24:
		swapBGR(to, from[3*r.x:])
	case whole:
		swapBGRX(to, from[4*r.x:])
	default:
		r.fields.read(to, from[bits/8*r.x:], bits, r.gray)
	}
}

// index returns pixel x of a row with 1, 2, 4 or 8 bits per pixel.
func (l *bmpLayout) index(from []byte, x int) uint8 {
	at := x * l.bits
	return from[at>>3] >> (8 - l.bits - at&7) & (1<<l.bits - 1)
}

func (l *bmpLayout) indexed(to, from []byte, x int, t *colorTable) {
	if l.bits == 8 {
		lookUp(to, from[x:x+len(to)/3], (*[256][3]uint8)(t))
		return
	}
	for i := 0; i+3 <= len(to); i += 3 {
		copy(to[i:i+3], t[l.index(from, x)][:])
		x++
	}
}

func (l *bmpLayout) indexedGray(to, from []byte, x int, t *colorTable) {
	for i := range to {
		to[i] = t[l.index(from, x+i)][0]
	}
}

func swapBGRX(to, from []byte) {
	for len(to) >= 3 {
		f, t := from[:3:3], to[:3:3]
		t[0], t[1], t[2] = f[2], f[1], f[0]
		to = to[3:]
		from = from[min(4, len(from)):]
	}
}

// bitFields reads channels of any width.
type bitFields struct {
	shift [3]int
	max   [3]uint64
}

func newBitFields(masks [3]uint32) (f bitFields) {
	for i, m := range masks {
		f.shift[i] = bits.TrailingZeros32(m)
		f.max[i] = uint64(m >> f.shift[i])
	}
	return f
}

// channel scales to 8 bits: round(v * 255 / max).
func (f *bitFields) channel(pixel uint32, i int) uint8 {
	v := uint64(pixel>>f.shift[i]) & f.max[i]
	return uint8((v*510 + f.max[i]) / (2 * f.max[i]))
}

func (f *bitFields) read(to, from []byte, depth int, gray bool) {
	step := 3
	if gray {
		step = 1
	}
	for ; len(to) >= step; to = to[step:] {
		var pixel uint32
		if depth == 16 {
			pixel = uint32(binary.LittleEndian.Uint16(from))
		} else {
			pixel = binary.LittleEndian.Uint32(from)
		}
		from = from[depth/8:]
		r, g, b := f.channel(pixel, 0), f.channel(pixel, 1), f.channel(pixel, 2)
		if gray {
			to[0] = gray601(r, g, b)
		} else {
			to[0], to[1], to[2] = r, g, b
		}
	}
}
