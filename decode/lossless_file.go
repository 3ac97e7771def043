package decode

import (
	"bytes"
	"compress/zlib"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"image"
	"image/png"
)

// The remainder of a lossless packed image: the length of what precedes the pixels, 4 bytes, that,
// and what follows the pixels.

// stored returns the pixels as the file stores them, says in l what they are, and sets the
// remainder. rgb are the pixels as they are decoded.
func (p *packed) stored(l *lossless, rgb, data []byte) (pix []byte, err error) {
	var head, tail []byte
	switch p.original {
	case PNG:
		if l.pixels, l.palette, pix, err = storedPNG(data); err != nil {
			return nil, err
		}
		head, tail = withoutIDAT(data)
	case BMP, PNM:
		raw, channels, err := rawPixels(p.original, data)
		if err != nil {
			return nil, err
		}
		head, tail, pix = data[:raw.start], data[raw.end():], rgb
		if channels == 1 {
			l.pixels = pixelsGray
			pix, _ = grayAlone(rgb)
		}
		if file, err := rawFile(p, head, tail, pix); err != nil || !bytes.Equal(file, data) {
			return nil, fmt.Errorf("%w: its rows end in other bytes than zeros", ErrNoPackedForm)
		}
	default:
		return nil, fmt.Errorf("%w: that can be undone, of %s", ErrNoPackedForm, p.original)
	}
	p.remainder = binary.LittleEndian.AppendUint32(nil, uint32(len(head)))
	p.remainder = append(append(p.remainder, head...), tail...)
	return pix, nil
}

// rawPixels finds the pixels of a BMP with 24 bits a pixel, or a binary PNM with 8 bits a sample.
func rawPixels(format Format, data []byte) (raw rawRows, channels int, err error) {
	if format == BMP {
		l, err := readBMPLayout(data, true)
		if err != nil || l.bits == 24 && !l.compressed() {
			return l.raw(), 3, err
		}
	} else {
		if !isPNM(data) {
			return raw, 0, corrupt("it does not begin like PPM or PGM")
		}
		l, err := readPNMLayout(data, true)
		if err != nil || !l.plain && l.maxval == 255 {
			return l.raw(), l.channels, err
		}
	}
	return raw, 0, fmt.Errorf("%w: that can be undone, of %s with other than 8 bits a sample", ErrNoPackedForm, format)
}

// rawFile joins a BMP or PNM.
func rawFile(p *packed, head, tail, pix []byte) ([]byte, error) {
	raw, channels, err := rawPixels(p.original, append(bytes.Clone(head), 0))
	n := p.width * channels
	if err != nil {
		return nil, err
	}
	if raw.start != int64(len(head)) || raw.height != int64(p.height) || raw.stride-int64(n) < 0 || raw.stride-int64(n) > 3 ||
		len(pix) != n*p.height {
		return nil, corrupt("a remainder that does not fit the pixels")
	}
	out := make([]byte, raw.end()+int64(len(tail)))
	copy(out, head)
	copy(out[raw.end():], tail)
	for y := range p.height {
		to, from := out[raw.at(y):][:n], pix[y*n:][:n]
		if p.original == BMP {
			swapBGR(to, from)
		} else {
			copy(to, from)
		}
	}
	return out, nil
}

// storedPNG returns what a PNG with 8 bits a sample stores.
func storedPNG(data []byte) (pixels uint8, palette, pix []byte, err error) {
	const ihdr = len(pngSignature) + 8
	depth, kind := data[ihdr+8], data[ihdr+9]
	pixels = [...]uint8{0: pixelsGray, 2: pixelsRGB, 3: pixelsIndex, 4: pixelsGrayAlpha, 6: pixelsRGBA}[kind]
	if depth != 8 {
		return 0, nil, nil, fmt.Errorf("%w: that can be undone, of PNG with %d bits a sample", ErrNoPackedForm, depth)
	}
	critical, err := pngCritical(data)
	if err != nil {
		return 0, nil, nil, err
	}
	m, err := png.Decode(critical)
	if err != nil {
		return 0, nil, nil, fmt.Errorf("%w: Go's decoder refuses it: %w", ErrNoPackedForm, err)
	}
	switch m := m.(type) {
	case *image.Gray:
		return pixels, nil, m.Pix, nil
	case *image.Paletted:
		palette = make([]byte, losslessPalette)
		for i, c := range m.Palette {
			r, g, b, _ := c.RGBA()
			palette[3*i], palette[3*i+1], palette[3*i+2] = uint8(r), uint8(g), uint8(b)
		}
		return pixels, palette, m.Pix, nil
	case *image.RGBA:
		return pixels, nil, channelsOf(m.Pix, pixels), nil
	case *image.NRGBA:
		return pixels, nil, channelsOf(m.Pix, pixels), nil
	}
	return 0, nil, nil, unsupported("Go's decoder makes it %T", m)
}

// channelsOf returns the channels that are stored of RGBA pixels.
func channelsOf(rgba []byte, pixels uint8) (out []byte) {
	for ; len(rgba) >= 4; rgba = rgba[4:] {
		switch pixels {
		case pixelsGrayAlpha:
			out = append(out, rgba[0], rgba[3])
		default:
			out = append(out, rgba[:planesOf(pixels)]...)
		}
	}
	return out
}

// withoutIDAT returns what precedes a PNG's first IDAT, and all else without any IDAT.
func withoutIDAT(data []byte) (head, tail []byte) {
	at, first := len(pngSignature), true
	for chunk := range pngChunks(data, at) {
		at += len(chunk)
		switch {
		case string(chunk[4:8]) == "IDAT":
			first = false
		case first:
			head = data[:at]
		default:
			tail = append(tail, chunk...)
		}
	}
	return head, append(tail, data[at:]...)
}

// pngFile joins a PNG.
func pngFile(p *packed, pixels uint8, head, tail, pix []byte) ([]byte, error) {
	const ihdr = len(pngSignature) + 8
	if len(head) < ihdr+13+4 {
		return nil, corrupt("a remainder without IHDR")
	}
	kind := [numPixels]byte{pixelsGray: 0, pixelsRGB: 2, pixelsIndex: 3, pixelsGrayAlpha: 4, pixelsRGBA: 6}[pixels]
	h, err := readIHDR(head[ihdr : ihdr+13])
	if err != nil || h.Width != p.width || h.Height != p.height || head[ihdr+8] != 8 || head[ihdr+9] != kind {
		return nil, corrupt("a remainder that does not fit the pixels")
	}
	out := bytes.Clone(head)
	out[ihdr+12] = 0 // not interlaced
	binary.BigEndian.PutUint32(out[ihdr+13:], crc32.ChecksumIEEE(out[ihdr-4:ihdr+13]))
	var idat bytes.Buffer
	z := zlib.NewWriter(&idat)
	step := planesOf(pixels)
	n := p.width * step
	above, line := make([]byte, n), make([]byte, 1+n)
	for y := range p.height {
		row := pix[y*n:][:n]
		filterRow(line, row, above, step, pixels == pixelsIndex)
		z.Write(line) // to memory, which does not fail
		above = row
	}
	z.Close()
	for data := idat.Bytes(); len(data) > 0; {
		part := data[:min(len(data), 1<<30)]
		data = data[len(part):]
		at := len(out)
		out = append(binary.BigEndian.AppendUint32(out, uint32(len(part))), "IDAT"...)
		out = append(out, part...)
		out = binary.BigEndian.AppendUint32(out, crc32.ChecksumIEEE(out[at+4:]))
	}
	return append(out, tail...), nil
}

// filterRow filters a row of a PNG by Paeth's predictor, and one of indices not at all.
func filterRow(to, row, above []byte, step int, indices bool) {
	if indices {
		to[0] = 0
		copy(to[1:], row)
		return
	}
	to[0] = 4
	for i, v := range row {
		var a, b, c int
		b = int(above[i])
		if i >= step {
			a, c = int(row[i-step]), int(above[i-step])
		}
		to[1+i] = v - paeth(a, b, c)
	}
}

// paeth returns whichever of a, b and c is nearest to a + b - c, the first of those equally near.
func paeth(a, b, c int) uint8 {
	distance := func(v int) int { return max(a+b-c-v, v-a-b+c) }
	switch pa, pb, pc := distance(a), distance(b), distance(c); {
	case pa <= pb && pa <= pc:
		return uint8(a)
	case pb <= pc:
		return uint8(b)
	}
	return uint8(c)
}

// unpackLossless makes the original file.
func (p *packed) unpackLossless() ([]byte, error) {
	l, err := openLossless(p)
	if err != nil {
		return nil, err
	}
	if len(p.remainder) < 4 {
		return nil, corrupt("a remainder of %d bytes", len(p.remainder))
	}
	n, rest := int64(binary.LittleEndian.Uint32(p.remainder)), p.remainder[4:]
	if n > int64(len(rest)) {
		return nil, corrupt("a remainder that ends early")
	}
	row := p.width * planesOf(l.pixels)
	if int64(row/64) > int64(len(p.body)) || int64(p.width)*int64(p.height) > DefaultMaxPixels {
		return nil, corrupt("more pixels than there are bytes for")
	}
	r := l.rows()
	var pix []byte
	for y := range p.height {
		if err := r.seek(y); err != nil {
			return nil, err
		}
		pix = append(pix, make([]byte, row)...)
		r.stored(pix[len(pix)-row:])
	}
	if p.original == PNG {
		return pngFile(p, l.pixels, rest[:n], rest[n:], pix)
	}
	if p.original != BMP && p.original != PNM {
		return nil, corrupt("a remainder of %s", p.original)
	}
	return rawFile(p, rest[:n], rest[n:], pix)
}
