package decode_test

import (
	"bytes"
	"compress/zlib"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"iter"
	"slices"
	"strings"
	"sync"

	. "github.com/batchfs/batchfs/decode"
)

// Editors take good files apart, and assemble damaged or unusual ones. None of them encodes a
// picture.

const (
	markSOF0  = 0xc0
	markSOF2  = 0xc2
	markDHT   = 0xc4
	markRST0  = 0xd0
	markEOI   = 0xd9
	markSOS   = 0xda
	markDQT   = 0xdb
	markDRI   = 0xdd
	markAPP1  = 0xe1
	markAPP14 = 0xee

	exifPrefix     = "Exif\x00\x00"
	tagOrientation = 0x0112

	pngSignature = "\x89PNG\r\n\x1a\n"
	pngOverhead  = 12 // of a chunk

	webpAnimation = 1 << 1 // flags of VP8X
	webpEXIF      = 1 << 3

	bmpCore, bmpInfo                         = 12, 40 // sizes of headers
	bmpRLE8, bmpBitfields, bmpAlphaBitfields = 1, 3, 6
)

// nextSegment returns the first marker at or after p that has a segment or ends a JPEG, and where
// it begins and ends.
func nextSegment(data []byte, p int) (marker byte, start, end int) {
	for {
		p += max(0, bytes.IndexByte(data[p:], 0xff))
		switch marker = data[p+1]; {
		case marker == 0xff:
			p++
		case marker <= 1 || marker >= markRST0 && marker < markEOI:
			p += 2
		case marker == markEOI:
			return marker, p, p + 2
		default:
			return marker, p, p + 2 + int(binary.BigEndian.Uint16(data[p+2:]))
		}
	}
}

// jpegSegments calls f for every marker segment of a JPEG before its first scan, and returns where
// that scan's marker is.
func jpegSegments(data []byte, f func(marker byte, whole []byte)) (scan int) {
	for p := 2; ; {
		m, start, end := nextSegment(data, p)
		if m == markSOS {
			return start
		}
		f(m, data[start:end])
		p = end
	}
}

// frameOf returns the part of a JPEG's frame header from the number of bits on.
func frameOf(data []byte) (frame []byte) {
	jpegSegments(data, func(m byte, whole []byte) {
		if m == markSOF0 || m == markSOF0+1 || m == markSOF2 || m >= 0xc9 && m <= 0xca {
			frame = whole[4:]
		}
	})
	return frame
}

// scanOf is the offset of the data of a JPEG's first scan.
func scanOf(data []byte) int {
	_, _, end := nextSegment(data, jpegSegments(data, func(byte, []byte) {}))
	return end
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

// swapped exchanges the codes of two symbols in a JPEG's AC tables.
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
		m, start, end := nextSegment(data, p)
		if m == markEOI {
			return data
		}
		if m == markSOS {
			if n--; n < 0 {
				return append(bytes.Clone(data[:start]), 0xff, markEOI)
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
	for whole := range pngChunks(data) {
		switch body := whole[8 : len(whole)-4]; string(whole[4:8]) {
		case "IHDR":
			s.ihdr = bytes.Clone(body)
		case "PLTE", "tRNS":
			s.before = append(s.before, whole...)
		case "IDAT":
			s.idat = append(s.idat, body...)
		}
	}
	return s
}

// pngChunks yields all chunks that are whole.
func pngChunks(data []byte) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		for p := len(pngSignature); p+pngOverhead <= len(data); {
			n := pngOverhead + int(binary.BigEndian.Uint32(data[p:]))
			if n > len(data)-p || !yield(data[p:][:n]) {
				return
			}
			p += n
		}
	}
}

// pngPixels returns how many bytes a pixel of a PNG has, and whether it is an index, or gray of few
// bits.
func pngPixels(data []byte) (bytes int, index bool) {
	depth, kind := int(data[24]), int(data[25])
	return max(1, pngChannels[kind]*depth/8), kind == 3 || depth < 8
}

// pngChannels are the channels of each colour type.
var pngChannels = map[int]int{0: 1, 2: 3, 3: 1, 4: 2, 6: 4}

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
	z := deflaters.Get().(*zlib.Writer)
	defer deflaters.Put(z)
	z.Reset(&b)
	z.Write(raw)
	z.Close()
	return b.Bytes()
}

// deflaters are used again, since making one costs more than what it does to a small image.
var deflaters = sync.Pool{New: func() any { return zlib.NewWriter(nil) }}

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
	const bmpFileHeader = 14
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

// turnedBy returns a sample with an orientation, if it has none and its format can carry EXIF.
// prefix precedes EXIF in a WebP.
func (s sample) turnedBy(orientation int, bigEndian bool, prefix string) sample {
	tiff := exifWith(orientation, bigEndian)
	switch {
	case s.orientation != 1 || strings.HasPrefix(s.name, "oriented/"):
		return s
	case s.format == JPEG:
		s.data = withEXIF(s.data, tiff)
	case s.format == PNG:
		s.data = slices.Concat(s.data[:33], chunk("eXIf", tiff), s.data[33:])
	case s.format == WebP && string(s.data[12:15]) == "VP8" && s.data[15] != 'X':
		s.data = riff("VP8X", vp8x(webpEXIF, s.w, s.h), string(s.data[12:16]), webpData(s.data), "EXIF", append([]byte(prefix), tiff...))
	default:
		return s
	}
	s.orientation = uint8(orientation)
	return s
}

// rotatable returns samples with an orientation in all formats that can carry EXIF. The size must
// be one of those in testdata/samples/plain-*.
func rotatable(w, h, orientation int, bigEndian bool) (out []sample) {
	for _, name := range []string{"plain-%dx%d.jpg", "plain-%dx%d.png", "plain-interlaced-%dx%d.png", "plain-%dx%d.webp"} {
		out = append(out, corpus(fmt.Sprintf(name, w, h)).turnedBy(orientation, bigEndian, ""))
	}
	return append(out, corpus(fmt.Sprintf("plain-%dx%d.webp", w, h)).turnedBy(orientation, bigEndian, exifPrefix))
}

// editedSamples are files that no available encoder writes: good files with some bytes changed,
// which have the same pixels, or others that follow from the change; and BMPs in which every bit
// pattern is a pixel.
func editedSamples(all []sample) (out []sample) {
	byName := map[string]sample{}
	for _, s := range all {
		byName[s.name] = s
	}
	add := func(name, from string, change func(s *sample)) {
		s := byName[from]
		change(&s)
		s.name = name
		s.rate()
		out = append(out, s)
	}
	jpeg := func(name, from string, change func(data []byte) []byte) {
		add(name+".jpg", from+".jpg", func(s *sample) { s.data = change(s.data) })
	}
	jpeg("stray-bytes", "baseline", func(b []byte) []byte { return astray(b, "\x00\x01\x02\xff\x00\x03\xff\xff") })
	jpeg("stray-fill-bytes", "baseline", func(b []byte) []byte { return astray(b, "\xff\xff\x00\x03") })
	jpeg("rgb-by-names", "rgb", func(b []byte) []byte { return without(b, markAPP14) })
	jpeg("rgb-by-adobe", "rgb", func(b []byte) []byte { return renamed(b, "\x01\x02\x03") })

	// A palette with fewer entries than indices: those beyond its end are black.
	add("short-palette.png", "palette-8-33x19.png", func(s *sample) {
		const entries = 40
		parts := splitPNG(s.data)
		parts.before = chunk("PLTE", parts.before[8:8+3*entries])
		s.data, s.rgb = parts.join(), bytes.Clone(s.rgb)
		for i := 0; i < len(s.rgb); i += 3 {
			if index := 255 - s.rgb[i+1]; index >= entries { // see make.py
				clear(s.rgb[i : i+3])
			}
		}
	})
	for _, s := range all {
		if s.format != BMP || strings.Contains(s.name, "core") {
			continue
		}
		if !strings.Contains(s.name, "rle") {
			add("from-the-top-"+s.name, s.name, func(s *sample) {
				s.data = bytes.Clone(s.data)
				binary.LittleEndian.PutUint32(s.data[22:], uint32(-int32(s.h)))
				s.rgb, _, _ = turned(s.rgb, s.w, s.h, 3, 4)
			})
		}
		add("gap-"+s.name, s.name, func(s *sample) {
			at := binary.LittleEndian.Uint32(s.data[10:])
			s.data = append(append(bytes.Clone(s.data[:at]), make([]byte, 6)...), s.data[at:]...)
			binary.LittleEndian.PutUint32(s.data[10:], at+6)
		})
	}
	for _, s := range all {
		if s.format == PNM {
			add("comments-"+s.name, s.name, func(s *sample) {
				s.data = append([]byte{'P', s.data[1]}, append([]byte("\n# a comment\n # another\n"), s.data[2:]...)...)
			})
		}
	}
	return append(out, bmpFieldSamples()...)
}

func bmpFieldSamples() (out []sample) {
	for _, size := range [][2]int{{1, 1}, {3, 2}, {31, 17}, {32, 5}} {
		w, h := size[0], size[1]
		for _, c := range []struct {
			name  string
			bits  int
			info  int
			masks []uint32
			kind  uint32
		}{
			{"555", 16, 40, nil, 0},
			{"565", 16, 40, []uint32{0xf800, 0x07e0, 0x001f}, bmpBitfields},
			{"444-alpha", 16, 40, []uint32{0x0f00, 0x00f0, 0x000f, 0xf000}, bmpAlphaBitfields},
			{"rgbx", 32, 108, []uint32{0xff, 0xff00, 0xff0000, 0xff000000}, bmpBitfields},
			{"10-bits", 32, 40, []uint32{0x3ff00000, 0x000ffc00, 0x000003ff}, bmpBitfields},
			{"one-bit", 32, 52, []uint32{1, 2, 0xfffffffc}, bmpBitfields},
		} {
			masks := c.masks
			if masks == nil {
				masks = []uint32{0x7c00, 0x03e0, 0x001f}
			}
			stride := (w*c.bits/8 + 3) &^ 3
			pixels := make([]byte, stride*h)
			for i := range pixels {
				pixels[i] = byte(uint32(i*40503+i*i*30011) * 2654435761 >> 24)
			}
			rgb := paint(w, h, func(x, y int) (p [3]uint8) {
				at := pixels[(h-1-y)*stride+x*c.bits/8:]
				v := uint32(binary.LittleEndian.Uint16(at))
				if c.bits == 32 {
					v = binary.LittleEndian.Uint32(at)
				}
				for i, m := range masks[:3] {
					low := uint64(m & -m)
					most := uint64(m) / low
					p[i] = uint8((uint64(v&m)/low*510 + most) / (2 * most))
				}
				return p
			})
			data := rawBMP{w: w, h: h, bits: c.bits, info: c.info, compression: c.kind, masks: c.masks, pixels: pixels}.join()
			out = append(out, sample{file: file{fmt.Sprintf("fields-%s-%dx%d.bmp", c.name, w, h), data}, format: BMP, orientation: 1, w: w, h: h, rgb: rgb})
		}
	}
	return append(out, bmpPaletteSamples()...)
}

// bmpPaletteSamples are BMPs with two bits per pixel, which only Windows CE wrote, and with a
// palette that is too short.
func bmpPaletteSamples() (out []sample) {
	colours := []byte{9, 8, 7, 0, 60, 50, 40, 0, 130, 120, 110, 0, 255, 254, 253, 0}
	for _, size := range [][2]int{{1, 1}, {3, 2}, {31, 17}, {32, 5}} {
		w, h := size[0], size[1]
		stride := (w*2 + 31) / 32 * 4
		pixels := make([]byte, stride*h)
		for i := range pixels {
			pixels[i] = byte(uint32(i+1) * 2654435761 >> 24)
		}
		rgb := paint(w, h, func(x, y int) [3]uint8 {
			i := 4 * (pixels[(h-1-y)*stride+x/4] >> (6 - 2*(x%4)) & 3)
			return [3]uint8{colours[i+2], colours[i+1], colours[i]}
		})
		core := slices.Concat(colours[:3], colours[4:7], colours[8:11], colours[12:15])
		for name, two := range map[string]rawBMP{
			"2":      {w: w, h: h, bits: 2, palette: colours, pixels: pixels},
			"2-core": {w: w, h: h, bits: 2, info: bmpCore, palette: core, pixels: pixels},
		} {
			out = append(out, sample{file: file{fmt.Sprintf("%s-%dx%d.bmp", name, w, h), two.join()}, format: BMP, orientation: 1, w: w, h: h, rgb: rgb})
		}
	}
	// Indices beyond the palette's end are black.
	short := rawBMP{w: 4, h: 1, bits: 8, colors: 3, palette: colours[:12], pixels: []byte{2, 0, 3, 255}}
	rgb := []uint8{110, 120, 130, 7, 8, 9, 0, 0, 0, 0, 0, 0}
	return append(out, sample{file: file{"short-palette.bmp", short.join()}, format: BMP, orientation: 1, w: 4, h: 1, rgb: rgb})
}
