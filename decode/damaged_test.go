package decode_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"

	. "github.com/batchfs/batchfs/decode"
)

// damagedFile is a file that is damaged in one known way, or only seems to be.
type damagedFile struct {
	name  string
	data  []byte
	kind  error  // nil: it must decode
	words string // in the reason, except for Go's decoders
	taken bool   // Go's decoders accept it
	// goRefuses: Go's decoder refuses it although it should not; see the package comment.
	goRefuses bool
}

var damagedFiles = sync.OnceValue(func() []damagedFile {
	return slices.Concat(damagedJPEGs(), damagedPNGs(), damagedChunks(), damagedStreams(), damagedRest(), refusedHeaders())
})

func damagedJPEGs() []damagedFile {
	plain, restarts, progressive := corpus("plain-61x47.jpg").data, corpus("restarts.jpg").data, corpus("progressive.jpg").data
	cut := func(data []byte, from, to int) []byte {
		return append(append([]byte(nil), data[:from]...), data[to:]...)
	}
	replace := func(data []byte, old, new string) []byte {
		return bytes.Replace(bytes.Clone(data), []byte(old), []byte(new), 1)
	}
	end := len(plain) - 2
	lastScan := bytes.LastIndex(progressive, []byte("\xff\xda"))
	return []damagedFile{
		{name: "trailing bytes", data: append(bytes.Clone(plain), "what is this"...)},
		{name: "a second image behind it", data: append(bytes.Clone(plain), plain...)},
		{name: "as many scans as are allowed", data: manyScans(499)},
		{name: "too many scans", data: manyScans(501), kind: ErrCorrupt, words: "500 scans"},
		{name: "a last scan left out", data: cut(progressive, lastScan, len(progressive)-2)},
		{name: "no end of image", data: plain[:end], kind: ErrCorrupt, words: "Premature end"},
		{name: "half of the mark for the end", data: plain[:end+1], kind: ErrCorrupt, words: "Premature end"},
		{name: "no end of image, progressive", data: progressive[:len(progressive)-2], kind: ErrCorrupt, words: "Premature end"},
		{name: "data left out before the end", data: cut(plain, end-60, end), kind: ErrCorrupt, words: "premature end of data segment"},
		{name: "data left out of a scan", data: cut(progressive, lastScan+30, len(progressive)-2), kind: ErrCorrupt, words: "premature end of data segment"},
		{name: "a restart marker out of order", data: replace(restarts, "\xff\xd1", "\xff\xd5"), kind: ErrCorrupt, words: "found marker"},
		{name: "a restart marker left out", data: replace(restarts, "\xff\xd1", ""), kind: ErrCorrupt},
		{name: "a code that is none", data: replace(restarts, "\xff\xd1", "\xff\xd1\xff\x00\xff\x00\xff\x00\xff\x00"), kind: ErrCorrupt, words: "bad Huffman code"},
	}
}

// manyScans is a progressive image that sends each bit of each coefficient in its own scan, all
// of them zero.
func manyScans(n int) []byte {
	const empty = 0x7f // one block without coefficients
	data := append(bareJPEG(8, 8, 1, 1, true, 0), 0xff, markSOS, 0, 8, 1, 1, 0, 0, 0, 0, empty)
	for i := range n - 1 { // plus the one for DC
		k, bit := byte(1+i/14), byte(13-i%14)
		before := (bit + 1) % 14
		data = append(data, 0xff, markSOS, 0, 8, 1, 1, 0, k, k, before<<4|bit, empty)
	}
	return append(data, 0xff, 0xd9)
}

func damagedRest() []damagedFile {
	webp := corpus("lossless-33x20.webp").data
	vp8l := webpData(webp)
	ppm := bytes.Clone(corpus("p6-100-7x5.pnm").data)
	ppm[len(ppm)-1] = 101
	rle := func(data ...byte) []byte {
		return rawBMP{w: 4, h: 2, bits: 8, compression: bmpRLE8, palette: make([]byte, 4*256), pixels: data}.join()
	}
	return []damagedFile{
		{name: "trailing bytes", data: append(bytes.Clone(webp), "what is this"...)},
		{name: "too little data for its pixels", data: riff("VP8L", vp8l[:len(vp8l)/2]), kind: ErrCorrupt},
		{name: "a sample above the maximum", data: ppm, kind: ErrCorrupt, words: "101"},
		{name: "a plain one above the maximum", data: []byte("P2 2 1 9 3 10 "), kind: ErrCorrupt, words: "10"},
		{name: "a plain one of letters", data: []byte("P2 2 1 9 3 x "), kind: ErrCorrupt, words: "no number"},
		{name: "a plain one that is short", data: []byte("P2 2 1 9 3    "), kind: ErrCorrupt, words: "ends early"},
		{name: "a plain one with comments", data: []byte("P2 2 1 9 3 # three\n 4")},
		{name: "run past the right edge", data: rle(9, 1, 0, 0, 4, 2, 0, 1)},
		{name: "run past the last row", data: rle(4, 1, 0, 0, 4, 2, 0, 0, 1, 1, 0, 1), kind: ErrCorrupt, words: "height"},
		{name: "moved past the last row", data: rle(0, 2, 0, 3, 0, 1), kind: ErrCorrupt, words: "height"},
		{name: "no end of bitmap", data: rle(4, 1, 0, 0, 4, 2, 0, 0), kind: ErrCorrupt, words: "ends early"},
		{name: "half a literal", data: rle(0, 4, 1, 2), kind: ErrCorrupt, words: "ends early"},
	}
}

// TestDamagedInKnownWays: damaged files are refused, for the right reason, and files that only seem
// damaged are not. All ways to decode agree, also on small parts.
func TestDamagedInKnownWays(t *testing.T) {
	c := newCoders(t)
	check := func(f damagedFile, k Kernel, err error) {
		switch {
		case k == Pure && f.goRefuses:
			if !errors.Is(err, ErrCorrupt) {
				t.Errorf("%s: Go: %v", f.name, err)
			}
		case k == Pure && f.taken:
			if err != nil {
				t.Errorf("%s: Go: %v", f.name, err)
			}
		case !errors.Is(err, f.kind):
			t.Errorf("%s: %s: %v, want %v", k, f.name, err, f.kind)
		case k != Pure && err != nil && !strings.Contains(err.Error(), f.words):
			t.Errorf("%s: %s: %v, want it to speak of %q", k, f.name, err, f.words)
		}
	}
	for _, f := range damagedFiles() {
		h, err := ReadHeader(f.data, true)
		if err != nil {
			check(f, Fastest, err)
			continue
		}
		a := whole(file{f.name, f.data})
		for _, k := range kernelsOf(h.Format) {
			check(f, k, c.with(Options{Kernel: k}).decode(t, a).err)
		}
		for _, r := range []Region{{1, 0, 3, 2}, {0, h.Height - 1, 2, 1}} {
			if a.region = r; r.X+r.W <= h.Width && r.Y+r.H <= h.Height {
				c.everywhere(a, Options{})
			}
		}
	}
}

func damagedPNGs() []damagedFile {
	whole := corpus("plain-20x10.png").data
	flip := func(at int) func([]byte) []byte {
		return func(idat []byte) []byte {
			idat[(at+len(idat))%len(idat)] ^= 0x10
			return idat
		}
	}
	with := func(change func(s *pngParts)) []byte { return edited(whole, change) }
	plain := with(func(*pngParts) {})
	crc := bytes.Clone(plain)
	crc[len(crc)-12-1] ^= 1 // of the last IDAT
	text := chunk("tEXt", []byte("Comment\x00harmless"))
	text[len(text)-1] ^= 1
	return []damagedFile{
		{name: "trailing bytes", data: append(bytes.Clone(plain), "what is this"...)},
		{name: "a wrong checksum of text", data: with(func(s *pngParts) { s.before = text })},
		{name: "a wrong checksum of IDAT", data: crc, kind: ErrCorrupt, words: "CRC"},
		{name: "a wrong checksum of the pixels", data: with(func(s *pngParts) { s.idat = flip(-1)(s.idat) }), kind: ErrCorrupt, words: "incorrect data check"},
		{name: "no IEND", data: plain[:len(plain)-12], kind: ErrCorrupt, words: "ends early"},
		{name: "more pixels than there are", data: with(func(s *pngParts) { s.idat = deflated(make([]byte, 61*11)) }), kind: ErrCorrupt},
		{name: "fewer pixels than there are", data: with(func(s *pngParts) { s.idat = deflated(make([]byte, 61*9)) }), kind: ErrCorrupt},
		{name: "a filter that is none", data: with(func(s *pngParts) { s.idat = deflated(bytes.Repeat([]byte{9}, 61*10)) }), kind: ErrCorrupt, words: "filter"},
		{name: "an unknown critical chunk", data: with(func(s *pngParts) { s.before = chunk("ABCD", nil) }), kind: ErrCorrupt},
		{name: "no palette", data: with(func(s *pngParts) { s.ihdr[9] = 3 }), kind: ErrCorrupt},
	}
}

// damagedChunks are PNGs whose chunks are damaged, out of order, or unusual.
func damagedChunks() []damagedFile {
	rgb, gray := corpus("plain-20x10.png").data, corpus("gray-8-33x19.png").data
	indexed := edited(corpus("palette-8-33x19.png").data, func(s *pngParts) { s.before = nil })
	plte := chunk("PLTE", make([]byte, 768))
	text := chunk("tEXt", []byte("Comment\x00harmless"))
	before := func(data []byte, chunks ...[]byte) []byte {
		return edited(data, func(s *pngParts) { s.before = slices.Concat(chunks...) })
	}
	after := func(data []byte, chunks ...[]byte) []byte {
		return edited(data, func(s *pngParts) { s.after = slices.Concat(chunks...) })
	}
	wrong := func(chunk []byte) []byte {
		chunk = bytes.Clone(chunk)
		chunk[len(chunk)-1] ^= 1
		return chunk
	}
	endless := bytes.Clone(text)
	endless[0] = 0x80
	plain := before(rgb)
	end := chunk("IEND", nil)
	body := plain[:len(plain)-len(end)]
	idat := bytes.Index(plain, []byte("IDAT"))
	middle := bytes.LastIndex(plain, []byte("IDAT")) - 4
	return []damagedFile{
		{name: "a palette", data: before(indexed, plte)},
		{name: "a palette of one colour", data: before(indexed, chunk("PLTE", make([]byte, 3)))},
		{name: "a suggested palette", data: before(rgb, plte)},
		{name: "a suggested palette that is not of threes", data: before(rgb, chunk("PLTE", make([]byte, 4)))},
		{name: "a suggested palette of too many", data: before(rgb, chunk("PLTE", make([]byte, 771)))},
		{name: "a suggested palette of too many, with a wrong checksum", data: before(rgb, wrong(chunk("PLTE", make([]byte, 771)))), kind: ErrCorrupt},
		{name: "a suggested palette with a wrong checksum", data: before(rgb, wrong(plte)), kind: ErrCorrupt},
		{name: "a palette with a wrong checksum", data: before(indexed, wrong(plte)), kind: ErrCorrupt},
		{name: "a palette that is not of threes", data: before(indexed, chunk("PLTE", make([]byte, 4))), kind: ErrCorrupt},
		{name: "a palette of none", data: before(indexed, chunk("PLTE", nil)), kind: ErrCorrupt},
		{name: "a palette of too many", data: before(indexed, chunk("PLTE", make([]byte, 771))), kind: ErrCorrupt},
		{name: "two palettes", data: before(indexed, plte, plte), kind: ErrCorrupt},
		{name: "a palette for gray", data: before(gray, plte), kind: ErrCorrupt},
		{name: "a palette behind the pixels", data: after(indexed, plte), kind: ErrCorrupt},
		{name: "two headers", data: before(rgb, plain[8:8+25]), kind: ErrCorrupt},
		{name: "text everywhere", data: edited(rgb, func(s *pngParts) { s.before, s.after = text, text })},
		{name: "a name that is none", data: before(rgb, chunk("te1t", nil)), kind: ErrCorrupt, taken: true},
		{name: "a name that is none behind the pixels", data: after(rgb, chunk("t xt", nil)), kind: ErrCorrupt, taken: true},
		{name: "a name for the future", data: before(rgb, chunk("text", nil))},
		{name: "an endless chunk", data: before(rgb, endless), kind: ErrCorrupt},
		{name: "an endless chunk behind the pixels", data: after(rgb, endless), kind: ErrCorrupt},
		{name: "text between IDATs", data: slices.Concat(plain[:middle], text, plain[middle:]), kind: ErrCorrupt, taken: true},
		{name: "an IDAT behind text", data: after(rgb, text, chunk("IDAT", nil))},
		{name: "an empty IDAT more", data: after(rgb, chunk("IDAT", nil))},
		{name: "an IDAT behind the end of the stream", data: after(rgb, chunk("IDAT", []byte("more")))},
		{name: "only empty IDATs", data: edited(rgb, func(s *pngParts) { s.idat = nil }), kind: ErrCorrupt},
		{name: "a wrong checksum of IEND", data: append(bytes.Clone(body), wrong(end)...), kind: ErrCorrupt},
		{name: "an IEND that is not empty", data: append(bytes.Clone(body), chunk("IEND", []byte("end"))...), kind: ErrCorrupt},
		{name: "half an IEND", data: plain[:len(plain)-6], kind: ErrCorrupt},
		{name: "two palettes, one behind the pixels", data: edited(indexed, func(s *pngParts) { s.before, s.after = plte, plte }), goRefuses: true},
		{name: "an unknown critical chunk behind the pixels", data: after(rgb, chunk("ABCD", nil)), goRefuses: true},
		{name: "very much text", data: before(rgb, chunk("tEXt", make([]byte, 9<<20)))}, // more than libpng accepts by default
		{name: "an IDAT that is longer than the file", data: slices.Concat(plain[:idat-3], []byte{1}, plain[idat-2:]), kind: ErrCorrupt},
	}
}

// damagedStreams are PNGs whose compressed data is damaged or unusual.
func damagedStreams() []damagedFile {
	// The data repeats after 900 bytes, and nowhere nearer.
	var rows []byte
	for y := range 20 {
		rows = append(rows, 0)
		for i := range 300 {
			rows = append(rows, byte(uint32(i+y%3*300)*2654435761>>24))
		}
	}
	with := func(change func(idat []byte) []byte) []byte {
		s := rawPNG(100, 20, 2, 8, false, rows)
		s.idat = change(s.idat)
		return s.join()
	}
	// header changes the first byte of the stream, and the second one to match.
	header := func(first, flags byte) func([]byte) []byte {
		return func(z []byte) []byte {
			z[0], z[1] = first, flags
			z[1] += byte(31 - (int(first)<<8|int(flags))%31)
			return z
		}
	}
	return []damagedFile{
		{name: "a wrong checksum", data: with(func(z []byte) []byte { z[len(z)-2] ^= 4; return z }), kind: ErrCorrupt},
		{name: "no checksum", data: with(func(z []byte) []byte { return z[:len(z)-4] }), kind: ErrCorrupt},
		{name: "half a checksum", data: with(func(z []byte) []byte { return z[:len(z)-2] }), kind: ErrCorrupt},
		{name: "a byte behind the checksum", data: with(func(z []byte) []byte { return append(z, 0) })},
		{name: "many bytes behind the checksum", data: with(func(z []byte) []byte { return append(z, bytes.Repeat([]byte("what is this"), 10000)...) }), goRefuses: true},
		{name: "a wrong checksum and bytes behind it", data: with(func(z []byte) []byte { z[len(z)-2] ^= 4; return append(z, 0) }), kind: ErrCorrupt},
		{name: "a stream behind the stream, in an IDAT of its own", data: with(func(z []byte) []byte { return append(z, z...) })},
		{name: "half the stream", data: with(func(z []byte) []byte { return z[:len(z)/2] }), kind: ErrCorrupt},
		{name: "not a stream", data: with(func(z []byte) []byte { return []byte("what is this") }), kind: ErrCorrupt},
		{name: "a byte of a stream", data: with(func(z []byte) []byte { return z[:1] }), kind: ErrCorrupt},
		{name: "another method", data: with(header(0x79, 0)), kind: ErrCorrupt},
		{name: "a window of 64 KiB", data: with(header(0x88, 0)), kind: ErrCorrupt},
		{name: "a window of 32 KiB", data: with(header(0x78, 0))},
		{name: "a window of 8 KiB", data: with(header(0x58, 0))},
		{name: "a window smaller than the stream needs", data: with(header(0x08, 0)), kind: ErrCorrupt, taken: true},
		{name: "a wrong check of the header", data: with(func(z []byte) []byte { z[1] ^= 1; return z }), kind: ErrCorrupt},
		{name: "a dictionary", data: with(header(0x78, 0x20)), kind: ErrCorrupt},
		{name: "a byte more than there are pixels", data: with(func([]byte) []byte { return deflated(make([]byte, 301*20+1)) }), kind: ErrCorrupt},
		{name: "a byte less than there are pixels", data: with(func([]byte) []byte { return deflated(make([]byte, 301*20-1)) }), kind: ErrCorrupt},
		{name: "no pixels", data: with(func([]byte) []byte { return deflated(nil) }), kind: ErrCorrupt},
		{name: "a last filter that is none", data: with(func([]byte) []byte {
			rows := make([]byte, 301*20)
			rows[301*19] = 5
			return deflated(rows)
		}), kind: ErrCorrupt},
	}
}

// refusedHeaders are files that every Decoder refuses because of their headers.
func refusedHeaders() []damagedFile {
	jpeg := corpus("ycc-1x1-7x9.jpg").data
	sof := strings.Index(string(jpeg), "\xff\xc0")
	patch := func(at int, b ...byte) []byte {
		out := append([]byte(nil), jpeg...)
		copy(out[at:], b)
		return out
	}
	png := corpus("rgb-8-5x3.png").data
	pngWith := func(w, h uint32, depth, kind byte) []byte {
		head := binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(nil, w), h)
		return append(append([]byte(pngSignature), chunk("IHDR", append(head, depth, kind, 0, 0, 0))...), png[33:]...)
	}
	badCRC := append([]byte(nil), png...)
	badCRC[len(pngSignature)+8+13] ^= 1
	vp8l := webpData(corpus("plain-20x10.webp").data)
	bmp := func(s rawBMP) []byte {
		s.pixels = make([]byte, 64)
		return s.join()
	}
	return []damagedFile{
		{name: "nothing", data: nil, kind: ErrFormat, words: "empty"},
		{name: "text", data: []byte("this is not an image at all"), kind: ErrFormat, words: "does not begin like JPEG, PNG, WebP, BMP, PPM, PGM or a packed image"},
		{name: "gif", data: []byte("GIF89a\x01\x00\x01\x00\x00\x00\x00\x00"), kind: ErrFormat, words: "does not begin like JPEG"},
		{name: "pbm", data: []byte("P4\n8 1\n\xff"), kind: ErrFormat, words: "does not begin like JPEG"},
		{name: "lossless jpeg", data: patch(sof+1, 0xc3), kind: ErrFormat, words: "lossless"},
		{name: "hierarchical jpeg", data: patch(sof+1, 0xc5), kind: ErrFormat, words: "hierarchical"},
		{name: "12-bit jpeg", data: patch(sof+4, 12), kind: ErrFormat, words: "12 bits"},
		{name: "jpeg of height 0", data: patch(sof+5, 0, 0), kind: ErrFormat, words: "height"},
		{name: "jpeg of width 0", data: patch(sof+7, 0, 0), kind: ErrCorrupt, words: "width"},
		{name: "jpeg too wide", data: patch(sof+7, 0xff, 0xff), kind: ErrFormat, words: "65500"},
		{name: "jpeg sampling", data: patch(sof+11, 0x05), kind: ErrCorrupt, words: "sampling"},
		{name: "jpeg of 2 components", data: append([]byte("\xff\xd8\xff\xc0\x00\x0e\x08\x00\x08\x00\x08\x02\x01\x11\x00\x02\x11\x00"),
			jpeg[sof+19:]...), kind: ErrFormat, words: "2 components"},
		{name: "jpeg without image", data: []byte("\xff\xd8\xff\xe0\x00\x04ab\xff\xd9"), kind: ErrCorrupt, words: "no image data"},
		{name: "jpeg segment", data: []byte("\xff\xd8\xff\xe0\x00\x01ab\xff\xd9"), kind: ErrCorrupt, words: "length"},
		{name: "jpeg twice begun", data: append([]byte("\xff\xd8"), jpeg...), kind: ErrCorrupt, words: "second start"},
		{name: "png without IHDR", data: append([]byte(pngSignature), png[33:]...), kind: ErrCorrupt, words: "IHDR"},
		{name: "png checksum", data: badCRC, kind: ErrCorrupt, words: "checksum"},
		{name: "png colour", data: pngWith(4, 4, 4, 2), kind: ErrCorrupt, words: "colour type"},
		{name: "png of width 0", data: pngWith(0, 4, 8, 2), kind: ErrCorrupt, words: "0x4"},
		{name: "png too wide", data: pngWith(1<<31-1, 4, 8, 2), kind: ErrFormat, words: "side"},
		{name: "png without image", data: append(append([]byte(nil), png[:33]...), chunk("IEND", nil)...), kind: ErrCorrupt, words: "no image data"},
		{name: "webp without frames", data: riff("VP8X", vp8x(webpAnimation, 20, 10), "ANIM", make([]byte, 6)), kind: ErrCorrupt, words: "no image data"},
		{name: "animation frames", data: riff("VP8X", vp8x(0, 20, 10), "ANMF", make([]byte, 24)), kind: ErrFormat, words: "animation"},
		{name: "frame without ANIM", data: riff("VP8X", vp8x(webpAnimation, 20, 10), "ANMF", webpFrame(0, 0, 20, 10, "VP8L", vp8l)), kind: ErrCorrupt, words: "ANIM"},
		{name: "frame off the canvas", data: riff("VP8X", vp8x(webpAnimation, 20, 10), "ANIM", make([]byte, 6), "ANMF", webpFrame(2, 0, 20, 10, "VP8L", vp8l)), kind: ErrCorrupt, words: "canvas"},
		{name: "frame of other size", data: riff("VP8X", vp8x(webpAnimation, 39, 19), "ANIM", make([]byte, 6), "ANMF", webpFrame(2, 0, 21, 10, "VP8L", vp8l)), kind: ErrCorrupt, words: "frame of 21x10"},
		{name: "empty frame", data: riff("VP8X", vp8x(webpAnimation, 39, 19), "ANIM", make([]byte, 6), "ANMF", webpFrame(2, 0, 21, 10)), kind: ErrCorrupt, words: "without an image"},
		{name: "image in animation", data: riff("VP8X", vp8x(webpAnimation, 20, 10), "ANIM", make([]byte, 6), "VP8L", vp8l), kind: ErrCorrupt, words: "no frame"},
		{name: "webp canvas", data: riff("VP8X", vp8x(0, 21, 10), "VP8L", vp8l), kind: ErrCorrupt, words: "canvas"},
		{name: "webp without image", data: riff("VP8X", vp8x(0, 5, 4), "ICCP", make([]byte, 6)), kind: ErrCorrupt, words: "no image data"},
		{name: "webp inter frame", data: riff("VP8 ", []byte("\x01\x00\x00\x9d\x01\x2a\x04\x00\x04\x00")), kind: ErrCorrupt, words: "key frame"},
		{name: "webp small chunk", data: riff("VP8L", []byte{0x2f, 0}), kind: ErrCorrupt, words: "VP8L"},
		{name: "bmp of jpeg", data: bmp(rawBMP{w: 4, h: 4, bits: 24, compression: 4}), kind: ErrFormat, words: "compression"},
		{name: "bmp of 3 bits", data: bmp(rawBMP{w: 4, h: 4, bits: 3}), kind: ErrCorrupt, words: "3 bits"},
		{name: "bmp of odd header", data: bmp(rawBMP{w: 4, h: 4, bits: 24, info: 41}), kind: ErrFormat, words: "41 bytes"},
		{name: "bmp fields", data: bmp(rawBMP{w: 4, h: 4, bits: 16, compression: bmpBitfields, masks: []uint32{5, 2, 8}}), kind: ErrCorrupt, words: "channel"},
		{name: "bmp rle from the top", data: bmp(rawBMP{w: 4, h: -4, bits: 8, compression: bmpRLE8}), kind: ErrCorrupt, words: "from the top"},
		{name: "bmp of width 0", data: bmp(rawBMP{w: 0, h: 4, bits: 24}), kind: ErrCorrupt, words: "0x4"},
		{name: "bmp of the wide", data: bmp(rawBMP{w: 1 << 28, h: 0, bits: 24}), kind: ErrCorrupt, words: "x0"},
		{name: "ppm of no numbers", data: []byte("P6 a b 255 aaaaaaaaa"), kind: ErrCorrupt, words: "no number"},
		{name: "ppm of maximum 0", data: []byte("P6 1 1 0 aaaaaaaaa"), kind: ErrCorrupt, words: "maximum"},
		{name: "ppm of huge maximum", data: []byte("P6 1 1 65536 aaaaaaaaa"), kind: ErrCorrupt, words: "maximum"},
		{name: "ppm too wide", data: []byte("P6 99999999999999999999 1 255 aaaaaaaaa"), kind: ErrFormat, words: "side"},
		{name: "ppm header's end", data: []byte("P6 1 1 255#aaaaaaaaa"), kind: ErrCorrupt, words: "white space"},
	}
}
