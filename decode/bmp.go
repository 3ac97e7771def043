package decode

import (
	"encoding/binary"
	"math/bits"
)

// decodeBMP reads BMP: 1 to 32 bits per pixel, palettes, bit fields, RLE. Missing palette
// entries are black; channels that are not 8 bits wide are scaled and rounded.
func decodeBMP(_ *kept, dst Image, data []byte, v view) error {
	l, err := readBMPLayout(data, true)
	if err != nil {
		return err
	}
	if l.compressed() {
		return decodeRLE(dst, data[min(l.pixels, int64(len(data))):], v, &l)
	}
	raw := l.raw()
	if raw.end() > int64(len(data)) {
		return endsEarly(true)
	}
	rows := bmpRows{bmpLayout: &l, x: v.Region.X, color: v.Color, table: l.table(v.Color)}
	n := v.Region.W * v.Color.Channels()
	for y := range v.Region.H {
		rows.read(dst.Pix[y*dst.Stride:][:n], data[raw.at(v.Region.Y+y):][:raw.stride])
	}
	return nil
}

// colorTable is a palette in the requested colour; for gray, only the first byte is used.
type colorTable [256][3]uint8

func (l *bmpLayout) table(c Color) (t colorTable) {
	for i := 0; i < len(t) && (i+1)*l.paletteEntry <= len(l.palette); i++ {
		e := l.palette[i*l.paletteEntry:]
		t[i] = c.pixel(e[2], e[1], e[0])
	}
	return t
}

// bmpRows turns stored rows into the region's pixels. It lives on the stack.
type bmpRows struct {
	*bmpLayout
	x     int // where the region starts
	color Color
	table colorTable
}

func (r *bmpRows) read(to, from []byte) {
	n := r.color.Channels()
	size := r.bits / 8
	whole := r.bits == 24 || r.bits == 32 && r.masks == [3]uint32{0xff0000, 0xff00, 0xff}
	switch {
	case whole && r.color == Gray:
		weigh(to, from[size*r.x:], size, 2, 0)
	case r.bits == 24:
		swapBGR(to, from[3*r.x:])
	case whole:
		swapPixels(to, from[4*r.x:], 4)
	case r.bits > 8:
		for x := r.x; len(to) >= n; x, to = x+1, to[n:] {
			pixel := uint32(binary.LittleEndian.Uint16(from[size*x:]))
			if r.bits == 32 {
				pixel = binary.LittleEndian.Uint32(from[4*x:])
			}
			p := r.color.pixel(r.channel(pixel, 0), r.channel(pixel, 1), r.channel(pixel, 2))
			copy(to[:n], p[:])
		}
	default:
		for x := r.x; len(to) >= n; x, to = x+1, to[n:] {
			copy(to[:n], r.table[r.index(from, x)][:])
		}
	}
}

// index returns pixel x of a row with 1, 2, 4 or 8 bits per pixel.
func (l *bmpLayout) index(from []byte, x int) uint8 {
	at := x * l.bits
	return from[at>>3] >> (8 - l.bits - at&7) & (1<<l.bits - 1)
}

// channel scales the channel under a mask to 8 bits: round(v * 255 / max).
func (l *bmpLayout) channel(pixel uint32, i int) uint8 {
	shift := bits.TrailingZeros32(l.masks[i])
	most := uint64(l.masks[i] >> shift)
	return uint8((uint64(pixel&l.masks[i])>>shift*510 + most) / (2 * most))
}

// swapPixels turns BGR pixels that are step bytes apart into RGB.
func swapPixels(to, from []byte, step int) {
	for ; len(to) >= 3; to = to[3:] {
		to[0], to[1], to[2] = from[2], from[1], from[0]
		from = from[min(step, len(from)):]
	}
}
