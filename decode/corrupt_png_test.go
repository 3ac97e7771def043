package decode

import (
	"bytes"
	"slices"
)

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
	// header gives the stream another first byte, and a matching second one.
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
