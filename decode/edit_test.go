package decode

import (
	"bytes"
	"compress/zlib"
	"encoding/binary"
	"hash/crc32"
	"slices"
)

// Editors: they take good files apart, and put damaged or unusual ones together. None of them
// encodes a picture.

const (
	markDQT = 0xdb
	markDRI = 0xdd
)

// jpegSegments calls f for every marker segment of a JPEG before its first scan, and returns where
// that scan's marker is.
func jpegSegments(data []byte, f func(marker byte, whole []byte)) (scan int) {
	for p := 2; ; {
		m, body, end := nextSegment(data, p)
		start := end - len(body) - 4
		if m == markSOS {
			return start
		}
		f(m, data[start:end])
		p = end
	}
}

// without removes all segments of one kind before a JPEG's first scan.
func without(data []byte, marker byte) []byte {
	out := bytes.Clone(data[:2])
	scan := jpegSegments(data, func(m byte, whole []byte) {
		if m != marker {
			out = append(out, whole...)
		}
	})
	return append(out, data[scan:]...)
}

// astray puts bytes before each marker of a baseline JPEG except the first.
func astray(data []byte, stray string) []byte {
	out := bytes.Clone(data[:2])
	scan := jpegSegments(data, func(_ byte, whole []byte) { out = append(append(out, stray...), whole...) })
	end := len(data) - 2
	return slices.Concat(out, []byte(stray), data[scan:end], []byte(stray), data[end:])
}

// renamed gives the components of a baseline JPEG other names.
func renamed(data []byte, names string) []byte {
	data = bytes.Clone(data)
	scan := jpegSegments(data, func(m byte, whole []byte) {
		if m == markSOF0 {
			for i := range names {
				whole[10+3*i] = names[i]
			}
		}
	})
	for i := range names {
		data[scan+5+2*i] = names[i]
	}
	return data
}

// swapped makes the codes for two symbols of a JPEG's AC tables mean one another.
func swapped(data []byte, a, b byte) []byte {
	data = bytes.Clone(data)
	jpegSegments(data, func(m byte, whole []byte) {
		if m != markDHT || whole[4]>>4 != 1 {
			return
		}
		symbols := whole[4+1+16:]
		i, j := bytes.IndexByte(symbols, a), bytes.IndexByte(symbols, b)
		symbols[i], symbols[j] = b, a
	})
	return data
}

// scansUpTo keeps the first n scans of a JPEG.
func scansUpTo(data []byte, n int) []byte {
	for p := 2; ; {
		m, body, end := nextSegment(data, p)
		if m == markEOI {
			return data
		}
		if m == markSOS {
			if n--; n < 0 {
				return append(bytes.Clone(data[:end-len(body)-4]), 0xff, markEOI)
			}
		}
		p = end
	}
}

// bareJPEG is a JPEG up to its first scan. Its quantization is 1, and each Huffman table has one
// code, of one bit, for symbol 0: scans of zero bits are valid, and the smallest.
func bareJPEG(w, h int, factor byte, comps int, progressive bool, restart int) []byte {
	marker := byte(markSOF0)
	if progressive {
		marker = markSOF2
	}
	out := append([]byte("\xff\xd8\xff\xdb\x00\x43\x00"), bytes.Repeat([]byte{1}, 64)...)
	out = append(out, 0xff, marker, 0, byte(8+3*comps), 8, byte(h>>8), byte(h), byte(w>>8), byte(w), byte(comps))
	for i := range comps {
		out = append(out, byte(i+1), factor<<4|factor, 0)
		factor = 1
	}
	for _, class := range []byte{0x00, 0x10} {
		out = append(append(out, 0xff, markDHT, 0, 20, class, 1), make([]byte, 16)...)
	}
	if restart > 0 {
		out = append(out, 0xff, markDRI, 0, 4, byte(restart>>8), byte(restart))
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

// withEXIF puts a TIFF structure into a JPEG.
func withEXIF(data, tiff []byte) []byte {
	app1 := append([]byte(exifPrefix), tiff...)
	return slices.Concat(data[:2], []byte{0xff, markAPP1, 0, byte(len(app1) + 2)}, app1, data[2:])
}

// pngParts is a PNG taken apart.
type pngParts struct {
	ihdr   []byte
	before []byte                     // chunks before the pixels
	after  []byte                     // and behind them
	idat   []byte                     // the compressed pixels
	split  func(idat []byte) [][]byte // into IDATs; nil: halves
}

func splitPNG(data []byte) (s pngParts) {
	for p := len(pngSignature); ; {
		n, name, _ := pngHead(data, p)
		whole := data[p : p+int(n)+pngOverhead]
		switch body := whole[8 : 8+n]; string(name) {
		case "IHDR":
			s.ihdr = bytes.Clone(body)
		case "PLTE", "tRNS":
			s.before = append(s.before, whole...)
		case "IDAT":
			s.idat = append(s.idat, body...)
		case "IEND":
			return s
		}
		p += len(whole)
	}
}

// rawPNG has rows of samples that need not be those of any picture.
func rawPNG(w, h, kind, depth int, interlaced bool, rows []byte) pngParts {
	s := pngParts{ihdr: binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(nil, uint32(w)), uint32(h)), idat: deflated(rows)}
	s.ihdr = append(s.ihdr, byte(depth), byte(kind), 0, 0, 0)
	if interlaced {
		s.ihdr[12] = 1
	}
	return s
}

func (s pngParts) join() []byte {
	out := slices.Concat([]byte(pngSignature), chunk("IHDR", s.ihdr), s.before)
	parts := [][]byte{s.idat[:len(s.idat)/2], s.idat[len(s.idat)/2:]}
	if s.split != nil {
		parts = s.split(s.idat)
	}
	for _, p := range parts {
		out = append(out, chunk("IDAT", p)...)
	}
	return slices.Concat(out, s.after, chunk("IEND", nil))
}

// edited is a PNG with some parts changed.
func edited(data []byte, change func(s *pngParts)) []byte {
	s := splitPNG(data)
	change(&s)
	return s.join()
}

func chunk(name string, data []byte) []byte {
	b := binary.BigEndian.AppendUint32(nil, uint32(len(data)))
	b = append(append(b, name...), data...)
	return binary.BigEndian.AppendUint32(b, crc32.ChecksumIEEE(b[4:]))
}

func deflated(raw []byte) []byte {
	var b bytes.Buffer
	z := zlib.NewWriter(&b)
	z.Write(raw)
	z.Close()
	return b.Bytes()
}

// rawBMP describes a BMP of which the pixels are given as they are stored.
type rawBMP struct {
	w, h, bits  int // h < 0: from the top
	info        int // size of the info header; 0: 40
	compression uint32
	colors      uint32 // in the palette; 0: 1<<bits
	masks       []uint32
	palette     []byte
	gap         int // bytes between palette and pixels
	pixels      []byte
}

func (s rawBMP) join() []byte {
	le := binary.LittleEndian
	if s.info == 0 {
		s.info = bmpInfo
	}
	info := le.AppendUint32(nil, uint32(s.info))
	if s.info == bmpCore {
		info = le.AppendUint16(le.AppendUint16(info, uint16(s.w)), uint16(s.h))
		info = le.AppendUint16(le.AppendUint16(info, 1), uint16(s.bits))
	} else {
		info = le.AppendUint32(le.AppendUint32(info, uint32(s.w)), uint32(int32(s.h)))
		info = le.AppendUint16(le.AppendUint16(info, 1), uint16(s.bits))
		info = append(le.AppendUint32(info, s.compression), make([]byte, 12)...)
		info = append(le.AppendUint32(info, s.colors), 0, 0, 0, 0)
	}
	for _, m := range s.masks {
		info = le.AppendUint32(info, m)
	}
	info = append(info, make([]byte, max(0, s.info-len(info)))...)
	info = slices.Concat(info, s.palette, make([]byte, s.gap))
	out := le.AppendUint32([]byte("BM"), uint32(bmpFileHeader+len(info)+len(s.pixels)))
	out = le.AppendUint32(append(out, 0, 0, 0, 0), uint32(bmpFileHeader+len(info)))
	return slices.Concat(out, info, s.pixels)
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

// webpData is the data of a WebP that has only one chunk.
func webpData(data []byte) []byte { return data[20 : 20+binary.LittleEndian.Uint32(data[16:])] }

// webpFrame returns the body of an ANMF chunk.
func webpFrame(x, y, w, h int, chunks ...any) []byte {
	b := []byte{byte(x / 2), byte(x / 512), 0, byte(y / 2), byte(y / 512), 0}
	b = append(b, byte(w-1), byte((w-1)>>8), 0, byte(h-1), byte((h-1)>>8), 0, 100, 0, 0, 0)
	return append(b, riff(chunks...)[12:]...)
}

func vp8x(flags byte, w, h int) []byte {
	return []byte{flags, 0, 0, 0, byte(w - 1), byte((w - 1) >> 8), byte((w - 1) >> 16), byte(h - 1), byte((h - 1) >> 8), byte((h - 1) >> 16)}
}
