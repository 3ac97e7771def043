package decode

import (
	"encoding/binary"
	"hash/crc32"
	"iter"
)

const pngSignature = "\x89PNG\r\n\x1a\n"

// pngOverhead is a chunk's size without its data.
const pngOverhead = 12

// pngHead returns the length and name of the chunk at p.
func pngHead(data []byte, p int) (n int64, name []byte, ok bool) {
	if p+8 > len(data) {
		return 0, nil, false
	}
	return int64(binary.BigEndian.Uint32(data[p:])), data[p+4 : p+8], true
}

// pngChunk returns the chunk at p, if it is all there.
func pngChunk(data []byte, p int) (chunk []byte, ok bool) {
	if p < 0 {
		return nil, false
	}
	n, _, ok := pngHead(data, p)
	if !ok || n > int64(len(data)-p-pngOverhead) {
		return nil, false
	}
	return data[p : p+pngOverhead+int(n)], true
}

// pngChunks yields the chunks from p on, up to IEND or the last whole one.
func pngChunks(data []byte, p int) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		for {
			chunk, ok := pngChunk(data, p)
			if !ok || !yield(chunk) || string(chunk[4:8]) == "IEND" {
				return
			}
			p += len(chunk)
		}
	}
}

func pngHeader(data []byte, complete bool) (Header, error) {
	const start = len(pngSignature)
	p := start + pngOverhead + 13
	if p > len(data) {
		return Header{}, endsEarly(complete)
	}
	if n, name, _ := pngHead(data, start); n != 13 || string(name) != "IHDR" {
		return Header{}, corrupt("its first chunk is not IHDR")
	}
	if !pngSound(data[start+4 : p]) {
		return Header{}, corrupt("the checksum of IHDR is wrong")
	}
	h, err := readIHDR(data[start+8 : p-4])
	if err != nil {
		return Header{}, err
	}
	for early := false; ; { // early: there is EXIF before the pixels
		n, name, ok := pngHead(data, p)
		if !ok {
			return Header{}, endsEarly(complete)
		}
		if n > 1<<31-1 {
			return Header{}, corrupt("a chunk of impossible length")
		}
		switch string(name) {
		case "IEND":
			return Header{}, corrupt("it has no image data")
		case "IDAT":
			if !early {
				h.pixelsAt = int64(p)
			}
			if complete {
				h = h.WithTail(data[p:])
			}
			return h, nil
		}
		end := int64(p) + pngOverhead + n
		if end > int64(len(data)) {
			return Header{}, endsEarly(complete)
		}
		if string(name) == "eXIf" {
			if o, ok := pngOrientation(data[p:end]); ok {
				h.Orientation, early = o, true
			}
		}
		p = int(end)
	}
}

func readIHDR(b []byte) (Header, error) {
	w, ht := binary.BigEndian.Uint32(b), binary.BigEndian.Uint32(b[4:])
	if err := checkSide(int64(w), int64(ht)); err != nil {
		return Header{}, err
	}
	depth, kind, interlaced := b[8], b[9], b[12] != 0
	bits := pngPixelBits(kind, depth)
	switch {
	case bits == 0:
		return Header{}, corrupt("colour type %d with %d bits", kind, depth)
	case b[10] != 0 || b[11] != 0 || b[12] > 1:
		return Header{}, corrupt("unknown compression, filter or interlace method")
	}
	h := Header{Format: PNG, Width: int(w), Height: int(ht), Orientation: 1, inflated: -1}
	h.stored = uint8((bits + 7) / 8)
	h.Scratch = pngScratch(h.Width, h.Height, bits)
	h.least = pngLeast(h.Width, h.Height, bits, interlaced)
	if depth == 8 && !interlaced {
		h.inflated = pngInflated(h.Width, h.Height, bits)
	}
	return h, nil
}

// pngSound checks the checksum of a chunk, given from its name to its checksum.
func pngSound(b []byte) bool {
	n := len(b) - 4
	return crc32.ChecksumIEEE(b[:n]) == binary.BigEndian.Uint32(b[n:])
}

// pngPixelBits returns the bits per pixel, 0 for combinations that PNG does not allow.
func pngPixelBits(kind, depth byte) int {
	if kind > 6 || depth > 16 || depth&(depth-1) != 0 || depth < 8 && kind != 0 && kind != 3 || depth == 16 && kind == 3 {
		return 0
	}
	return [...]int{1, 0, 3, 1, 2, 0, 4}[kind] * int(depth) // gray, RGB, palette, gray and alpha, RGB and alpha
}

// pngInflated returns the size of all rows with bits bits per pixel; a filter byte precedes each.
func pngInflated(width, height, bits int) int64 {
	return int64(height) * (1 + (int64(width)*int64(bits)+7)/8)
}

// deflateRatio is the maximum compression ratio of deflate: a length and a distance of one bit
// each stand for 258 bytes.
const deflateRatio = 1032

// adam7 holds each pass' first column and row, and the steps to the next ones.
var adam7 = [...][4]int{{0, 0, 8, 8}, {4, 0, 8, 8}, {0, 4, 4, 8}, {2, 0, 4, 4}, {0, 2, 2, 4}, {1, 0, 2, 2}, {0, 1, 1, 2}}

// pngLeast is the size of the smallest possible file: its signature, IHDR, IDAT with a zlib
// stream of all rows, and IEND.
func pngLeast(width, height, bits int, interlaced bool) int64 {
	rows := pngInflated(width, height, bits)
	if interlaced {
		rows = 0
		for _, p := range adam7 {
			if w, h := (width-p[0]+p[2]-1)/p[2], (height-p[1]+p[3]-1)/p[3]; w > 0 {
				rows += pngInflated(w, h, bits)
			}
		}
	}
	return int64(len(pngSignature)) + 3*pngOverhead + 13 + 2 + 4 + rows/deflateRatio
}
