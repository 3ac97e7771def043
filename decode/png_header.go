package decode

import (
	"encoding/binary"
	"hash/crc32"
)

const pngSignature = "\x89PNG\r\n\x1a\n"

// pngOverhead is a chunk's size without its data.
const pngOverhead = 12

// pngHead returns the length and name of the chunk at p.
func pngHead(data []byte, p int) (n int64, name string, ok bool) {
	if p+8 > len(data) {
		return 0, "", false
	}
	return int64(binary.BigEndian.Uint32(data[p:])), pngName(data[p+4 : p+8]), true
}

// pngName maps a chunk's name to a constant, to avoid an allocation.
func pngName(b []byte) string {
	switch string(b) {
	case "IHDR":
		return "IHDR"
	case "PLTE":
		return "PLTE"
	case "eXIf":
		return "eXIf"
	case "IDAT":
		return "IDAT"
	case "IEND":
		return "IEND"
	}
	return ""
}

func pngHeader(data []byte, complete bool) (Header, error) {
	p := len(pngSignature)
	if p+pngOverhead+13 > len(data) {
		return Header{}, endsEarly(complete)
	}
	if n, name, _ := pngHead(data, p); n != 13 || name != "IHDR" {
		return Header{}, corrupt("its first chunk is not IHDR")
	}
	if !pngSound(data[p+4 : p+8+13+4]) {
		return Header{}, corrupt("the checksum of IHDR is wrong")
	}
	ihdr := data[p+8 : p+8+13]
	if err := checkIHDR(ihdr); err != nil {
		return Header{}, err
	}
	h := Header{Format: PNG, Orientation: 1}
	h.Width, h.Height = int(binary.BigEndian.Uint32(ihdr)), int(binary.BigEndian.Uint32(ihdr[4:]))
	bits, interlaced := pngPixelBits(ihdr[9], ihdr[8]), ihdr[12] != 0
	h.Scratch = pngScratch(h.Width, h.Height, bits, interlaced)
	h.least = pngLeast(h.Width, h.Height, bits, interlaced)
	h.inflated = -1
	if ihdr[8] == 8 && !interlaced {
		h.inflated = pngInflated(h.Width, h.Height, bits/8)
	}
	early := false // there is EXIF before the pixels
	for p += pngOverhead + 13; ; {
		n, name, ok := pngHead(data, p)
		if !ok {
			return Header{}, endsEarly(complete)
		}
		if n > 1<<31-1 {
			return Header{}, corrupt("a chunk of impossible length")
		}
		switch name {
		case "IDAT":
			switch {
			case early:
			case complete:
				h.Orientation = pngLateOrientation(data[max(p, len(data)-pngTail):])
			default:
				h.pixelsAt = int64(p)
			}
			return h, nil
		case "IEND":
			return Header{}, corrupt("it has no image data")
		}
		end := int64(p) + pngOverhead + n
		if end > int64(len(data)) {
			return Header{}, endsEarly(complete)
		}
		if name == "eXIf" {
			if o, ok := pngOrientation(data[p:end]); ok {
				h.Orientation, early = o, true
			}
		}
		p = int(end)
	}
}

// pngSound checks the checksum of a chunk, given from its name to its checksum.
func pngSound(b []byte) bool {
	n := len(b) - 4
	return crc32.ChecksumIEEE(b[:n]) == binary.BigEndian.Uint32(b[n:])
}

func checkIHDR(b []byte) error {
	if err := checkSide(int64(binary.BigEndian.Uint32(b)), int64(binary.BigEndian.Uint32(b[4:]))); err != nil {
		return err
	}
	depth, kind := b[8], b[9]
	switch {
	case pngPixelBits(kind, depth) == 0:
		return corrupt("colour type %d with %d bits", kind, depth)
	case b[10] != 0 || b[11] != 0 || b[12] > 1:
		return corrupt("unknown compression, filter or interlace method")
	}
	return nil
}

// pngPixelBits returns the bits per pixel, 0 for combinations that PNG does not allow.
func pngPixelBits(kind, depth byte) int {
	d := int(depth)
	low := d == 1 || d == 2 || d == 4
	full := d == 8 || d == 16
	switch {
	case kind == 0 && (low || full): // gray
		return d
	case kind == 3 && (low || d == 8): // palette
		return d
	case kind == 4 && full: // gray and alpha
		return 2 * d
	case kind == 2 && full: // RGB
		return 3 * d
	case kind == 6 && full: // RGB and alpha
		return 4 * d
	}
	return 0
}

// pngInflated returns the size of all rows with pixels of the given size in bytes; a filter byte
// precedes each row.
func pngInflated(width, height, pixel int) int64 {
	return int64(height) * (1 + int64(width)*int64(pixel))
}

// deflateRatio is the maximum compression ratio of deflate: a length and a distance of one bit
// each stand for 258 bytes.
const deflateRatio = 1032

// pngLeast is the size of the smallest possible file: its signature, IHDR, IDAT with a zlib
// stream of all rows, and IEND.
func pngLeast(width, height, bits int, interlaced bool) int64 {
	const fixed = int64(len(pngSignature)) + 3*pngOverhead + 13 + 2 + 4
	rows := func(w, h int) int64 {
		if w == 0 {
			return 0
		}
		return int64(h) * (1 + (int64(w)*int64(bits)+7)/8)
	}
	if !interlaced {
		return fixed + rows(width, height)/deflateRatio
	}
	var n int64
	for _, p := range [7][4]int{{0, 0, 8, 8}, {4, 0, 8, 8}, {0, 4, 4, 8}, {2, 0, 4, 4}, {0, 2, 2, 4}, {1, 0, 2, 2}, {0, 1, 1, 2}} {
		x, y, dx, dy := p[0], p[1], p[2], p[3]
		n += rows((width-x+dx-1)/dx, (height-y+dy-1)/dy)
	}
	return fixed + n/deflateRatio
}
