package decode

import (
	"bytes"
	"compress/zlib"
	"crypto/subtle"
	"encoding/binary"
	"fmt"
	"io"
)

// The remainder of a lossless packed image: the lengths of two parts, 4 bytes each; the bytes
// before the pixels in the file; for BMP and PNM, what the file's rows have besides pixels, a zlib
// stream of bytes that are exclusive-ored to them, or nothing; and the bytes after the pixels.
func losslessRemainder(head, rest, tail []byte) [][]byte {
	sizes := binary.LittleEndian.AppendUint32(nil, uint32(len(head)))
	return [][]byte{binary.LittleEndian.AppendUint32(sizes, uint32(len(rest))), head, rest, tail}
}

const losslessSizes = 8

// unpackLossless restores the original file.
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

// packRaw packs a BMP or PNM so that it can be restored.
func (d *Decoder) packRaw(room, data []byte, h Header) (body int, remainder [][]byte, err error) {
	f, err := rawOf(h.Format, data)
	switch {
	case err != nil:
		return 0, nil, err
	case f.encoded():
		return 0, nil, fmt.Errorf("%w: that can be undone, of %s with run lengths or in ASCII", ErrNoPackedForm, h.Format)
	case f.raw.end() > int64(len(data)):
		return 0, nil, endsEarly(true)
	case f.pixels == pixelsIndex:
		f.palette = make([]byte, 0, losslessPalette)
		for _, c := range f.bmp.table(RGB) {
			f.palette = append(f.palette, c[:]...)
		}
	}
	w := newLosslessWriter(room, f.lossless, d.state.kernel)
	rest := differences{row: make([]byte, f.raw.stride)}
	line := make([]byte, f.width*f.planes())
	for y := range f.height {
		row := data[f.raw.at(y):][:f.raw.stride]
		if err := f.read(line, row, 0); err != nil {
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

// differences collects the bits in which rows differ from the expected ones.
type differences struct {
	row   []byte // as expected; then its difference
	same  int    // rows without a difference before the first with one
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

// unpackRaw restores a BMP or PNM.
func unpackRaw(format Format, r *losslessRows, head, rest, tail []byte) ([]byte, error) {
	f, err := rawOf(format, append(bytes.Clone(head), 0)) // a header must not end the file
	if err != nil {
		return nil, err
	}
	raw := f.raw
	if f.encoded() || raw.start != int64(len(head)) || !f.fits(r) {
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
