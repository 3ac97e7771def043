package decode

import (
	"encoding/binary"
	"math/bits"
)

// A rawImage is a BMP or PNM. read makes rows of pixels in the form of a lossless packed image.
// write makes rows of the file, which may differ from the original ones in bits that do not affect
// pixels.
type rawImage struct {
	lossless
	format Format
	raw    rawRows
	bmp    bmpLayout
	pnm    pnmLayout
}

// rawOf reads the header of a file. The pixels may be missing.
func rawOf(format Format, data []byte) (f rawImage, err error) {
	f.format = format
	switch {
	case format == BMP:
		f.bmp, err = readBMPLayout(data, true)
		l := &f.bmp
		f.raw, f.width, f.height, f.pixels = l.raw(), l.width, l.height, pixelsRGB
		if l.bits <= 8 {
			f.pixels = pixelsIndex
		} else if l.whole() {
			f.pixels = pixelsRGBA
		}
	case !isPNM(data):
		err = corrupt("it does not begin like PPM or PGM")
	default:
		f.pnm, err = readPNMLayout(data, true)
		l := &f.pnm
		f.raw, f.width, f.height, f.pixels, f.wide = l.raw(), l.width, l.height, pixelsGray, l.size == 2
		if l.channels == 3 {
			f.pixels = pixelsRGB
		}
	}
	return f, err
}

// encoded reports whether the file has run lengths, or numbers in ASCII, instead of rows of pixels.
func (f *rawImage) encoded() bool { return f.bmp.compressed() || f.pnm.plain }

// read makes as many pixels as fit, from pixel x of a row on. Impossible pixels are an error.
func (f *rawImage) read(to, row []byte, x int) error {
	switch l := &f.bmp; {
	case f.format == PNM:
		return f.pnm.read(to, row[x*f.planes():])
	case l.bits <= 8:
		for i := range to {
			to[i] = l.index(row, x+i)
		}
	case l.bits == 24:
		swapBGR(to, row[3*x:])
	case f.pixels == pixelsRGBA:
		swapBGRA(to, row[4*x:])
	case l.whole():
		for from := row[4*x:]; len(to) >= 3; to, from = to[3:], from[4:] {
			to[0], to[1], to[2] = from[2], from[1], from[0]
		}
	default:
		l.readFields(to, row[x*l.bits/8:])
	}
	return nil
}

// write makes a row of the file.
func (f *rawImage) write(row, from []byte) {
	switch l := &f.bmp; {
	case f.format == PNM:
		f.pnm.write(row, from)
	case l.bits <= 8:
		joinBits(row, from, l.bits)
	case l.bits == 24:
		swapBGR(row[:len(from)], from)
	case f.pixels == pixelsRGBA:
		swapBGRA(row, from)
	default:
		l.writeFields(row, from)
	}
}

// decodeRaw decodes BMP and PNM.
func decodeRaw(_ *codecState, dst Image, data []byte, v view) error {
	f, err := rawOf(v.Header.Format, data)
	switch {
	case err != nil:
		return err
	case f.bmp.compressed():
		return decodeRLE(dst, data[min(f.bmp.pixels, int64(len(data))):], v, &f.bmp)
	case f.pnm.plain:
		return f.pnm.decodePlain(dst, data, v)
	case f.raw.end() > int64(len(data)):
		return endsEarly(true)
	}
	const few = 128 // pixels at a time, which stay in the first-level cache
	var some [few * 6]byte
	var table colorTable
	if f.pixels == pixelsIndex {
		table = f.bmp.table(v.Color)
	}
	if f.pixels == pixelsRGBA {
		f.pixels = pixelsRGB
	}
	n, c := f.planes(), v.Color.Channels()
	asStored := n == c && f.pixels != pixelsIndex
	for y := range v.Region.H {
		row, to := data[f.raw.at(v.Region.Y+y):][:f.raw.stride], dst.Pix[y*dst.Stride:][:v.Region.W*c]
		if asStored {
			if err := f.read(to, row, v.Region.X); err != nil {
				return err
			}
			continue
		}
		for x := 0; x < v.Region.W; x += few {
			line := some[:min(few, v.Region.W-x)*n]
			if err := f.read(line, row, v.Region.X+x); err != nil {
				return err
			}
			f.show(to[x*c:], line, v.Color, &table)
		}
	}
	return nil
}

// show makes pixels from stored ones, which it overwrites.
func (l *lossless) show(to, line []byte, c Color, table *colorTable) {
	n, k := samplesOf(l.pixels), c.Channels()
	if l.wide {
		for i := range len(line) / 2 {
			line[i] = narrow(binary.BigEndian.Uint16(line[2*i:]))
		}
		line = line[:len(line)/2]
	}
	switch {
	case l.pixels == pixelsIndex:
		for i, index := range line {
			copy(to[k*i:k*i+k], table[index][:])
		}
	case n >= 3 && c == Gray:
		weigh(to[:len(line)/n], line, n, 0, 2)
	case n >= 3:
		for to = to[:len(line)/n*3]; len(to) >= 3; to, line = to[3:], line[n:] {
			to[0], to[1], to[2] = line[0], line[1], line[2]
		}
	case n == 1 && k == 3:
		repeat(to, line)
	case n == 1:
		copy(to, line)
	default: // without alpha
		for i := range len(line) / n {
			copy(to[k*i:k*i+k], []byte{line[n*i], line[n*i], line[n*i]})
		}
	}
}

// colorTable is a palette in a colour; for gray, only the first byte is used.
type colorTable [256][3]uint8

func (l *bmpLayout) table(c Color) (t colorTable) {
	for i := 0; i < len(t) && (i+1)*l.paletteEntry <= len(l.palette); i++ {
		e := l.palette[i*l.paletteEntry:]
		t[i] = c.pixel(e[2], e[1], e[0])
	}
	return t
}

// whole reports whether pixels are blue, green, red and a fourth byte, of 8 bits each.
func (l *bmpLayout) whole() bool {
	return l.bits == 32 && l.masks == [3]uint32{0xff0000, 0xff00, 0xff}
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

// swapBGRA swaps the first and third of four channels.
func swapBGRA(to, from []byte) {
	for ; len(to) >= 4 && len(from) >= 4; to, from = to[4:], from[4:] {
		to[0], to[1], to[2], to[3] = from[2], from[1], from[0], from[3]
	}
}

// readFields makes RGB pixels from pixels with channels under masks.
func (l *bmpLayout) readFields(to, row []byte) {
	for ; len(to) >= 3; to, row = to[3:], row[l.bits/8:] {
		pixel := uint32(binary.LittleEndian.Uint16(row))
		if l.bits == 32 {
			pixel = binary.LittleEndian.Uint32(row)
		}
		to[0], to[1], to[2] = l.channel(pixel, 0), l.channel(pixel, 1), l.channel(pixel, 2)
	}
}

// writeFields is the inverse of readFields if channels have at most 8 bits, and there are no
// others.
func (l *bmpLayout) writeFields(row, from []byte) {
	for ; len(from) >= 3; from, row = from[3:], row[l.bits/8:] {
		pixel := uint32(0)
		for i, m := range l.masks {
			low := m & -m
			pixel |= uint32((2*uint64(from[i])*uint64(m/low)+255)/510) * low
		}
		if l.bits == 32 {
			binary.LittleEndian.PutUint32(row, pixel)
		} else {
			binary.LittleEndian.PutUint16(row, uint16(pixel))
		}
	}
}

// unscaled reports whether samples are packed unchanged.
func (l *pnmLayout) unscaled() bool { return l.maxval == 255 || l.maxval == 65535 }

// read scales samples to a maximum of 255, or two-byte samples to 65535 such that they give the
// right 8 bits.
func (l *pnmLayout) read(to, row []byte) error {
	if l.unscaled() {
		copy(to, row)
		return nil
	}
	for i := 0; i < len(to); i += l.size {
		v := int(row[i])
		if l.size == 2 {
			v = int(binary.BigEndian.Uint16(row[i:]))
		}
		if v > l.maxval {
			return l.excess(v)
		}
		eight := int(l.eight(v))
		if l.size == 1 {
			to[i] = uint8(eight)
			continue
		}
		wide := (2*65535*v + l.maxval) / (2 * l.maxval)
		binary.BigEndian.PutUint16(to[i:], uint16(min(max(wide, 257*eight-128), 257*eight+128)))
	}
	return nil
}

// write is the inverse of read for most maxima.
func (l *pnmLayout) write(row, from []byte) {
	if l.unscaled() {
		copy(row, from)
		return
	}
	for i := 0; i < len(from); i += l.size {
		if l.size == 1 {
			row[i] = uint8((2*int(from[i])*l.maxval + 255) / 510)
			continue
		}
		v := int(binary.BigEndian.Uint16(from[i:]))
		binary.BigEndian.PutUint16(row[i:], uint16((2*v*l.maxval+65535)/(2*65535)))
	}
}
