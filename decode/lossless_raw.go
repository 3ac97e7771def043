package decode

import (
	"bytes"
	"compress/zlib"
	"crypto/subtle"
	"encoding/binary"
	"fmt"
	"io"
)

// The remainder of a lossless packed image: the lengths of two parts, 4 bytes each; what precedes
// the pixels in the file; of BMP and PNM what the rows of the file have besides pixels, a zlib
// stream of bytes that are exclusive-ored to them, or nothing; and what follows the pixels.
func losslessRemainder(head, rest, tail []byte) [][]byte {
	sizes := binary.LittleEndian.AppendUint32(nil, uint32(len(head)))
	return [][]byte{binary.LittleEndian.AppendUint32(sizes, uint32(len(rest))), head, rest, tail}
}

const losslessSizes = 8

// unpackLossless makes the original file.
func (p *packed) unpackLossless() ([]byte, error) {
	l, err := openLossless(p)
	if err != nil {
		return nil, err
	}
	if len(p.remainder) < losslessSizes {
		return nil, corrupt("a remainder of %d bytes", len(p.remainder))
	}
	le, all := binary.LittleEndian, p.remainder[losslessSizes:]
	n, m := int64(le.Uint32(p.remainder)), int64(le.Uint32(p.remainder[4:]))
	if n+m > int64(len(all)) {
		return nil, corrupt("a remainder that ends early")
	}
	switch head, rest, tail := all[:n], all[n:n+m], all[n+m:]; {
	case p.original == PNG && m == 0:
		return unpackPNG(l.rows(), head, tail)
	case p.original == BMP, p.original == PNM:
		return unpackRaw(p.original, l.rows(), head, rest, tail)
	}
	return nil, corrupt("a remainder of %s", p.original)
}

// A rawForm is how uncompressed rows of a file become rows that are packed, and back. Pixels that
// a row cannot have are an error of read. What read makes of a row has its pixels; what write makes
// of those may differ from the row in bits that do not matter to them.
type rawForm struct {
	lossless
	raw   rawRows
	read  func(to, row []byte) error
	write func(row, from []byte)
}

// rawFormOf reads the header of a BMP or PNM, whose pixels may be missing.
func rawFormOf(format Format, data []byte) (f rawForm, err error) {
	if format == BMP {
		l, err := readBMPLayout(data, true)
		if err != nil {
			return f, err
		}
		return bmpForm(&l)
	}
	if !isPNM(data) {
		return f, corrupt("it does not begin like PPM or PGM")
	}
	l, err := readPNMLayout(data, true)
	if err != nil {
		return f, err
	}
	return pnmForm(&l)
}

func bmpForm(l *bmpLayout) (f rawForm, err error) {
	f = rawForm{raw: l.raw(), lossless: lossless{pixels: pixelsRGB, width: l.width, height: l.height}}
	switch {
	case l.compressed():
		return f, fmt.Errorf("%w: that can be undone, of BMP with run lengths", ErrNoPackedForm)
	case l.bits <= 8:
		f.pixels, f.palette = pixelsIndex, make([]byte, 0, losslessPalette)
		for _, c := range l.table(RGB) {
			f.palette = append(f.palette, c[:]...)
		}
		f.read = func(to, row []byte) error {
			for x := range to {
				to[x] = l.index(row, x)
			}
			return nil
		}
		f.write = func(row, from []byte) { joinBits(row, from, l.bits) }
	case l.bits == 24:
		f.read = func(to, row []byte) error { swapBGR(to, row); return nil }
		f.write = func(row, from []byte) { swapBGR(row[:len(from)], from) }
	case l.bits == 32 && l.masks == [3]uint32{0xff0000, 0xff00, 0xff}:
		f.pixels = pixelsRGBA
		f.read = func(to, row []byte) error { swapBGRA(to, row); return nil }
		f.write = swapBGRA
	default:
		f.read = func(to, row []byte) error { l.readFields(to, row); return nil }
		f.write = l.writeFields
	}
	return f, nil
}

// swapBGRA exchanges the first and the third of four channels.
func swapBGRA(to, from []byte) {
	for ; len(to) >= 4 && len(from) >= 4; to, from = to[4:], from[4:] {
		to[0], to[1], to[2], to[3] = from[2], from[1], from[0], from[3]
	}
}

// readFields makes RGB pixels of ones with channels under masks.
func (l *bmpLayout) readFields(to, row []byte) {
	for ; len(to) >= 3; to, row = to[3:], row[l.bits/8:] {
		pixel := uint32(binary.LittleEndian.Uint16(row))
		if l.bits == 32 {
			pixel = binary.LittleEndian.Uint32(row)
		}
		to[0], to[1], to[2] = l.channel(pixel, 0), l.channel(pixel, 1), l.channel(pixel, 2)
	}
}

// writeFields is the inverse of readFields where channels have no more than 8 bits, and there are
// no others.
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

func pnmForm(l *pnmLayout) (f rawForm, err error) {
	f = rawForm{raw: l.raw(), lossless: lossless{pixels: pixelsGray, width: l.width, height: l.height}}
	f.wide = l.size == 2
	if l.channels == 3 {
		f.pixels = pixelsRGB
	}
	switch {
	case l.plain:
		return f, fmt.Errorf("%w: that can be undone, of PNM in ASCII", ErrNoPackedForm)
	case l.maxval == 255 || l.maxval == 65535:
		f.read = func(to, row []byte) error { copy(to, row); return nil }
		f.write = func(row, from []byte) { copy(row, from) }
	default:
		f.read, f.write = l.readScaled, l.writeScaled
	}
	return f, nil
}

// readScaled scales samples to a maximum of 255, or those of two bytes to one of 65535 such that
// they become the right ones of 8 bits.
func (l *pnmLayout) readScaled(to, row []byte) error {
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

// writeScaled is the inverse of readScaled for most maxima.
func (l *pnmLayout) writeScaled(row, from []byte) {
	for i := 0; i < len(from); i += l.size {
		if l.size == 1 {
			row[i] = uint8((2*int(from[i])*l.maxval + 255) / 510)
			continue
		}
		v := int(binary.BigEndian.Uint16(from[i:]))
		binary.BigEndian.PutUint16(row[i:], uint16((2*v*l.maxval+65535)/(2*65535)))
	}
}

// packRaw packs a BMP or PNM such that it can be made again.
func (d *Decoder) packRaw(room, data []byte, h Header) (body int, remainder [][]byte, err error) {
	f, err := rawFormOf(h.Format, data)
	if err != nil {
		return 0, nil, err
	}
	if f.raw.end() > int64(len(data)) {
		return 0, nil, endsEarly(true)
	}
	w := newLosslessWriter(room, f.lossless, d.kept.kernel)
	rest := differences{row: make([]byte, f.raw.stride)}
	line := make([]byte, f.width*f.planes())
	for y := range f.height {
		row := data[f.raw.at(y):][:f.raw.stride]
		if err := f.read(line, row); err != nil {
			return 0, nil, err
		}
		clear(rest.row)
		f.write(rest.row, line)
		rest.put(row)
		if err := w.row(line, f.planes()); err != nil {
			return 0, nil, err
		}
	}
	body, err = w.end()
	return body, losslessRemainder(data[:f.raw.start], rest.end(), data[f.raw.end():]), err
}

// differences collects in which bits rows are not what was expected.
type differences struct {
	row   []byte // as expected; then its difference
	same  int    // rows so far without any, while there was none with one
	to    bytes.Buffer
	zlibs *zlib.Writer
}

func (d *differences) put(row []byte) {
	if d.zlibs == nil && bytes.Equal(d.row, row) {
		d.same++
		return
	}
	subtle.XORBytes(d.row, d.row, row)
	if d.zlibs == nil {
		d.zlibs = zlib.NewWriter(&d.to)
		none := make([]byte, len(row))
		for range d.same {
			d.zlibs.Write(none) // to memory, which does not fail
		}
	}
	d.zlibs.Write(d.row)
}

// end returns the differences, nothing if there are none.
func (d *differences) end() []byte {
	if d.zlibs != nil {
		d.zlibs.Close()
	}
	return d.to.Bytes()
}

// unpackRaw makes a BMP or PNM.
func unpackRaw(format Format, r *losslessRows, head, rest, tail []byte) ([]byte, error) {
	f, err := rawFormOf(format, append(bytes.Clone(head), 0)) // a header must not end the file
	if err != nil {
		return nil, err
	}
	raw := f.raw
	if raw.start != int64(len(head)) || !f.fits(r) {
		return nil, corrupt("a remainder that does not fit the pixels")
	}
	var differences io.Reader
	if len(rest) > 0 {
		if differences, err = zlib.NewReader(bytes.NewReader(rest)); err != nil {
			return nil, corrupt("a remainder: %v", err)
		}
	}
	out := make([]byte, raw.end()+int64(len(tail)))
	copy(out, head)
	copy(out[raw.end():], tail)
	line, difference := make([]byte, f.width*f.planes()), make([]byte, raw.stride)
	for y := range f.height {
		if err := r.seek(y); err != nil {
			return nil, err
		}
		r.stored(line)
		row := out[raw.at(y):][:raw.stride]
		f.write(row, line)
		if differences == nil {
			continue
		}
		if _, err := io.ReadFull(differences, difference); err != nil {
			return nil, corrupt("a remainder: %v", err)
		}
		subtle.XORBytes(row, row, difference)
	}
	return out, nil
}
