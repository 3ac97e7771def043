package decode

import (
	"bytes"
	"compress/zlib"
	"encoding/binary"
	"hash/crc32"
	"io"
)

const pngIHDR = len(pngSignature) + 8 // where the contents of the first chunk are

func pngDepth(data []byte) (bits, kind byte) { return data[pngIHDR+8], data[pngIHDR+9] }

// pngPixels says what a PNG stores. Gray of less than 8 bits is treated like a palette of grays.
func pngPixels(data []byte) (l lossless) {
	bits, kind := pngDepth(data)
	l.pixels = [...]uint8{
		0: pixelsGray, 2: pixelsRGB, 3: pixelsIndex, 4: pixelsGrayAlpha, 6: pixelsRGBA,
	}[kind]
	l.wide = bits == 16
	if bits < 8 {
		l.pixels = pixelsIndex
	}
	return l
}

// pngPalette returns 256 colours, black where the file has none.
func pngPalette(data []byte) []byte {
	out := make([]byte, losslessPalette)
	if bits, kind := pngDepth(data); kind == 0 {
		most := 1<<bits - 1
		for i := range most + 1 {
			g := uint8(i * 255 / most)
			out[3*i], out[3*i+1], out[3*i+2] = g, g, g
		}
		return out
	}
	for chunk := range pngChunks(data, len(pngSignature)) {
		if string(chunk[4:8]) == "PLTE" {
			copy(out, chunk[8:len(chunk)-4])
			break
		}
	}
	return out
}

// packPNG packs indices unchanged, and for a file, everything.
func (d *Decoder) packPNG(room, data []byte, h Header, keep Remainder) (
	body int, remainder [][]byte, err error,
) {
	l := pngPixels(data)
	if keep == ForMemory && l.pixels != pixelsIndex {
		body, err = d.packPixels(room, data, h)
		return body, nil, err
	}
	l.width, l.height = h.Width, h.Height
	if l.pixels == pixelsIndex {
		l.palette = pngPalette(data)
	}
	stride := l.width * l.planes()
	pix := room[len(room)-stride*l.height:]
	if err := storedPNG(&d.state, pix, data, h, l.planes()); err != nil {
		return 0, nil, err
	}
	if body, err = l.pack(room, d.state.kernel, pix, stride, l.planes()); err != nil || keep == ForMemory {
		return body, nil, err
	}
	head, tail := withoutIDAT(data)
	return body, losslessRemainder(head, nil, tail), nil
}

// withoutIDAT returns the bytes before a PNG's first IDAT, and everything after it except IDATs.
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

// unpackPNG makes a PNG, not interlaced, from its stored pixels and the rest of the file.
func unpackPNG(r *losslessRows, head, tail []byte) ([]byte, error) {
	if len(head) < pngIHDR+13+4 {
		return nil, corrupt("a remainder without IHDR")
	}
	h, err := readIHDR(head[pngIHDR : pngIHDR+13])
	if err != nil {
		return nil, err
	}
	stored := pngPixels(head)
	stored.width, stored.height = h.Width, h.Height
	if !stored.fits(r) {
		return nil, corrupt("a remainder that does not fit the pixels")
	}
	bits, _ := pngDepth(head)
	out := bytes.Clone(head)
	out[pngIHDR+12] = 0 // not interlaced
	binary.BigEndian.PutUint32(out[pngIHDR+13:], crc32.ChecksumIEEE(out[pngIHDR-4:pngIHDR+13]))
	var idat bytes.Buffer
	z := zlib.NewWriter(&idat)
	if err := filterRows(z, r, int(bits)); err != nil {
		return nil, err
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

// filterRows writes all rows as they are before deflation: filtered by Paeth's predictor, except
// for indices.
func filterRows(to io.Writer, r *losslessRows, bits int) error {
	step := r.planes()
	row, above := make([]byte, r.width*step), make([]byte, r.width*step)
	line := make([]byte, 1+len(row))
	for y := range r.height {
		if err := r.seek(y); err != nil {
			return err
		}
		r.stored(row)
		if r.pixels == pixelsIndex {
			line = append(line[:1], make([]byte, (r.width*bits+7)/8)...)
			joinBits(line[1:], row, bits)
		} else {
			line[0] = 4
			paethRow(line[1:], row, above, step)
		}
		if _, err := to.Write(line); err != nil {
			return err
		}
		row, above = above, row
	}
	return nil
}

// joinBits packs values of bits bits, the first one in the highest bits of a byte.
func joinBits(to, values []byte, bits int) {
	clear(to)
	for x, v := range values {
		at := x * bits
		to[at>>3] |= v << (8 - bits - at&7)
	}
}

func paethRow(to, row, above []byte, step int) {
	for i, v := range row {
		var a, b, c int
		b = int(above[i])
		if i >= step {
			a, c = int(row[i-step]), int(above[i-step])
		}
		to[i] = v - paeth(a, b, c)
	}
}

// paeth returns the value among a, b and c that is nearest to a + b - c, the first one if two are
// equally near.
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
