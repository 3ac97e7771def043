package decode

import (
	"encoding/binary"
	"fmt"
)

// Writers for tests of BMP, PNM, lossless WebP and EXIF.

type bmpSpec struct {
	w, h, bits  int
	info        int // size of the info header; 0: 40
	topDown     bool
	compression uint32
	masks       []uint32
	palette     [][3]uint8 // red, green, blue
	colors      uint32
	gap         int // bytes between palette and pixels
	pixel       func(x, y int) uint32
	data        []byte // instead of pixel
}

func writeBMP(s bmpSpec) []byte {
	le := binary.LittleEndian
	if s.info == 0 {
		s.info = bmpInfo
	}
	info := le.AppendUint32(nil, uint32(s.info))
	if s.info == bmpCore {
		info = le.AppendUint16(le.AppendUint16(info, uint16(s.w)), uint16(s.h))
		info = le.AppendUint16(le.AppendUint16(info, 1), uint16(s.bits))
	} else {
		h := s.h
		if s.topDown {
			h = -h
		}
		info = le.AppendUint32(le.AppendUint32(info, uint32(s.w)), uint32(int32(h)))
		info = le.AppendUint16(le.AppendUint16(info, 1), uint16(s.bits))
		info = le.AppendUint32(info, s.compression)
		info = append(info, make([]byte, 12)...)
		info = le.AppendUint32(le.AppendUint32(info, s.colors), 0)
	}
	for _, m := range s.masks {
		info = le.AppendUint32(info, m)
	}
	if len(info) < s.info {
		info = append(info, make([]byte, s.info-len(info))...)
	}
	for _, p := range s.palette {
		info = append(info, p[2], p[1], p[0])
		if s.info != bmpCore {
			info = append(info, 0)
		}
	}
	info = append(info, make([]byte, s.gap)...)
	pixels := s.data
	if pixels == nil {
		pixels = s.rows()
	}
	out := le.AppendUint32([]byte("BM"), uint32(bmpFileHeader+len(info)+len(pixels)))
	out = le.AppendUint32(append(out, 0, 0, 0, 0), uint32(bmpFileHeader+len(info)))
	return append(append(out, info...), pixels...)
}

func (s *bmpSpec) rows() (out []byte) {
	for i := range s.h {
		y := s.h - 1 - i
		if s.topDown {
			y = i
		}
		line := make([]byte, (s.w*s.bits+31)/32*4)
		for x := range s.w {
			v := s.pixel(x, y)
			if s.bits < 8 {
				line[x*s.bits/8] |= byte(v) << (8 - s.bits - x*s.bits%8)
				continue
			}
			for b := range s.bits / 8 {
				line[x*s.bits/8+b] = byte(v >> (8 * b))
			}
		}
		out = append(out, line...)
	}
	return out
}

// writePNM writes P2, P3, P5 or P6.
func writePNM(kind byte, w, h, maxval int, sample func(x, y, c int) int) []byte {
	out := fmt.Appendf(nil, "P%c\n# a comment\n %d # another\n%d\n%d\n", kind, w, h, maxval)
	channels := 1
	if kind == '3' || kind == '6' {
		channels = 3
	}
	for y := range h {
		for x := range w {
			for c := range channels {
				v := sample(x, y, c)
				switch {
				case kind < '5':
					out = fmt.Appendf(out, "%d ", v)
				case maxval > 255:
					out = append(out, byte(v>>8), byte(v))
				default:
					out = append(out, byte(v))
				}
			}
		}
		if kind < '5' {
			out = append(out, '\n')
		}
	}
	return out
}

// exifWith returns a TIFF structure that contains an orientation, among other things.
func exifWith(orientation int, bigEndian bool) []byte {
	var order binary.AppendByteOrder = binary.LittleEndian
	out := []byte("II*\x00")
	if bigEndian {
		order = binary.BigEndian
		out = []byte("MM\x00*")
	}
	entry := func(b []byte, tag, kind uint16, count uint32) []byte {
		return order.AppendUint32(order.AppendUint16(order.AppendUint16(b, tag), kind), count)
	}
	out = order.AppendUint32(out, 10)
	out = append(out, 0xaa, 0xbb)
	out = order.AppendUint16(out, 2)
	out = order.AppendUint32(entry(out, 0x0100, 4, 1), 640)
	out = order.AppendUint16(order.AppendUint16(entry(out, tagOrientation, 3, 1), uint16(orientation)), 0)
	return order.AppendUint32(out, 0)
}

// riff wraps chunks, given as names and data, into a WebP file.
func riff(chunks ...any) []byte {
	body := []byte("WEBP")
	for i := 0; i < len(chunks); i += 2 {
		data := chunks[i+1].([]byte)
		body = append(body, chunks[i].(string)...)
		body = binary.LittleEndian.AppendUint32(body, uint32(len(data)))
		body = append(body, data...)
		if len(data)%2 == 1 {
			body = append(body, 0)
		}
	}
	return append(binary.LittleEndian.AppendUint32([]byte("RIFF"), uint32(len(body))), body...)
}

// webpFrame returns the body of an ANMF chunk.
func webpFrame(x, y, w, h int, chunks ...any) []byte {
	b := []byte{byte(x / 2), byte(x / 512), 0, byte(y / 2), byte(y / 512), 0}
	b = append(b, byte(w-1), byte((w-1)>>8), 0, byte(h-1), byte((h-1)>>8), 0, 100, 0, 0, 0)
	return append(b, riff(chunks...)[12:]...)
}

func vp8x(flags byte, w, h int) []byte {
	return []byte{flags, 0, 0, 0, byte(w - 1), byte((w - 1) >> 8), byte((w - 1) >> 16), byte(h - 1), byte((h - 1) >> 8), byte((h - 1) >> 16)}
}

// writeVP8L writes lossless WebP data without any compression: all codes of all channels have 8
// bits.
func writeVP8L(w, h int, rgba func(x, y int) [4]uint8) []byte {
	out := []byte{0x2f}
	var acc uint64
	n := 0
	put := func(v, bits int) {
		acc |= uint64(v) << n
		for n += bits; n >= 8; n -= 8 {
			out = append(out, byte(acc))
			acc >>= 8
		}
	}
	put(w-1, 14)
	put(h-1, 14)
	put(1, 1) // alpha
	put(0, 3) // version
	put(0, 1) // no transform
	put(0, 1) // no colour cache
	put(0, 1) // one group of codes
	for _, symbols := range []int{256 + 24, 256, 256, 256} {
		put(0, 1)    // lengths are coded
		put(12-4, 4) // 12 lengths of the code for lengths follow, in the format's order:
		for i := range 12 {
			order := []int{17, 18, 0, 1, 2, 3, 4, 5, 16, 6, 7, 8}
			length := 0
			if order[i] == 0 || order[i] == 8 {
				length = 1 // codes 0 and 1
			}
			put(length, 3)
		}
		put(0, 1) // for all symbols
		for s := range symbols {
			if s < 256 {
				put(1, 1)
			} else {
				put(0, 1)
			}
		}
	}
	put(1, 1) // distances: a simple code
	put(0, 1) // of one symbol
	put(0, 1) // of one bit
	put(0, 1)
	for y := range h {
		for x := range w {
			p := rgba(x, y)
			for _, c := range []int{1, 0, 2, 3} { // green, red, blue, alpha
				put(reverse8(p[c]), 8)
			}
		}
	}
	if n > 0 {
		put(0, 8-n)
	}
	return out
}

// reverse8 reverses bits, because codes are written starting with their first bit.
func reverse8(b uint8) (r int) {
	for i := range 8 {
		r |= int(b>>i&1) << (7 - i)
	}
	return r
}
