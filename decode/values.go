package decode

import (
	"encoding/binary"
	"fmt"
)

// The pixels of a mask are numbers: palettes are not expanded, and gray is not scaled.

// ValueBytes returns how many bytes each value of a mask has, from its header or the beginning of
// its file: 1 for indices of a palette and gray of up to 8 bits, 2 for gray of 16 bits, and 3 for
// red, green and blue. Other images cannot be masks.
func ValueBytes(head []byte) (int, error) {
	switch Sniff(head) {
	case PNG:
		if len(head) < pngIHDR+13 {
			return 0, endsEarly(false)
		}
		return pngPixels(head).valueBytes()
	case BMP:
		l, err := readBMPLayout(head, false)
		switch {
		case err != nil:
			return 0, err
		case l.bits <= 8 && !l.compressed():
			return 1, nil
		case l.bits == 24:
			return 3, nil
		}
	case PNM:
		l, err := readPNMLayout(head, false)
		switch {
		case err != nil:
			return 0, err
		case !l.plain && l.channels*l.size <= 3:
			return l.channels * l.size, nil
		}
	case Packed:
		if len(head) < packedHead+losslessHead {
			return 0, endsEarly(false)
		}
		kind, original, remainder := head[5], head[7], binary.LittleEndian.Uint64(head[24:])
		if body := head[packedHead:]; kind == kindLossless && original == 2 && remainder > 0 {
			l := lossless{pixels: body[0], wide: body[1] == 1}
			return l.valueBytes()
		}
	case JPEG, WebP:
		return 0, unsupported("a mask as %s, which does not keep values", Sniff(head))
	}
	return 0, unsupported("a mask of this kind of %s; PNG with a palette, or gray, is read", Sniff(head))
}

// valueBytes is how many bytes the pixels of a mask have.
func (l lossless) valueBytes() (int, error) {
	switch n := l.planes(); {
	case l.pixels == pixelsIndex, l.pixels == pixelsGray, l.pixels == pixelsRGB && !l.wide:
		return n, nil
	case l.pixels == pixelsRGB:
		return 0, unsupported("a mask of colours of 16 bits")
	}
	return 0, unsupported("a mask with alpha")
}

// ValueNeeds is Needs for Values.
func (d *Decoder) ValueNeeds(h Header) int64 { return h.Scratch + lacks(&d.state, h, valueScratch(h)) }

// ValueNeeds is Decoder.ValueNeeds for one that holds nothing.
func ValueNeeds(h Header) int64 { return h.Scratch + valueScratch(h) }

// Values writes the values of a mask, a whole file, as they are stored, whatever its orientation:
// row by row, each with the number of bytes that ValueBytes returns, the higher one of two first.
// to must have exactly the needed size. Errors are those of Decode.
func (d *Decoder) Values(to, data []byte, h Header) error {
	if _, err := d.open(data, h); err != nil {
		return err
	}
	n, err := ValueBytes(data)
	if err != nil {
		return err
	}
	if int64(len(to)) != h.pixels()*int64(n) {
		return fmt.Errorf("%w: %d bytes for %dx%d values of %d", ErrDestination, len(to), h.Width, h.Height, n)
	}
	switch stride := h.Width * n; h.Format {
	case PNG:
		return storedPNG(&d.state, to, data, h, n)
	case Packed:
		return packedValues(to, data, stride)
	default:
		return rawValues(to, data, h.Format, stride)
	}
}

// packedValues reads a packed PNG.
func packedValues(to, data []byte, stride int) error {
	p, err := openPacked(data)
	if err == nil {
		err = p.verifyFor(data, Region{W: p.width, H: p.height}, 1)
	}
	if err != nil {
		return err
	}
	l, err := openLossless(&p)
	if err != nil {
		return err
	}
	r := l.rows()
	for y := range l.height {
		if err := r.seek(y); err != nil {
			return err
		}
		r.stored(to[y*stride:][:stride])
	}
	return nil
}

// rawValues reads a BMP or PNM. Values of a PNM are not scaled.
func rawValues(to, data []byte, format Format, stride int) error {
	f, err := rawOf(format, data)
	if err != nil {
		return err
	}
	if f.raw.end() > int64(len(data)) {
		return endsEarly(true)
	}
	for y := range f.height {
		line, row := to[y*stride:][:stride], data[f.raw.at(y):][:f.raw.stride]
		if format == PNM {
			copy(line, row)
		} else if err := f.read(line, row, 0); err != nil {
			return err
		}
	}
	return nil
}
