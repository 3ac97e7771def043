package decode

import (
	"bytes"
	"errors"
	"strings"
	"testing"
)

// damagedFile is a file that is damaged in one known way, or only looks so.
type damagedFile struct {
	name  string
	data  []byte
	kind  error  // nil: it must decode
	words string // of the reason, in the native build
}

func damagedFiles() []damagedFile {
	out := damagedJPEGs()
	out = append(out, damagedPNGs()...)
	return append(out, damagedRest()...)
}

func damagedJPEGs() []damagedFile {
	spec := jpegSpec{w: 40, h: 40, comps: ycc(2, 2), adobe: -1}
	plain := writeJPEG(spec)
	spec.restart = 1
	restarts := writeJPEG(spec)
	spec.restart, spec.progressive = 0, true
	progressive := writeJPEG(spec)
	cut := func(data []byte, from, to int) []byte {
		return append(append([]byte(nil), data[:from]...), data[to:]...)
	}
	replace := func(data []byte, old, new string) []byte {
		return bytes.Replace(bytes.Clone(data), []byte(old), []byte(new), 1)
	}
	end := len(plain) - 2
	lastScan := bytes.LastIndex(progressive, []byte("\xff\xda"))
	return []damagedFile{
		{"trailing bytes", append(bytes.Clone(plain), "what is this"...), nil, ""},
		{"a second image behind it", append(bytes.Clone(plain), plain...), nil, ""},
		{"a last scan left out", cut(progressive, lastScan, len(progressive)-2), nil, ""},
		{"no end of image", plain[:end], ErrCorrupt, "Premature end"},
		{"half of the mark for the end", plain[:end+1], ErrCorrupt, "Premature end"},
		{"no end of image, progressive", progressive[:len(progressive)-2], ErrCorrupt, "Premature end"},
		{"data left out before the end", cut(plain, end-60, end), ErrCorrupt, "premature end of data segment"},
		{"data left out of a scan", cut(progressive, lastScan+30, len(progressive)-2), ErrCorrupt, "premature end of data segment"},
		{"a restart marker out of order", replace(restarts, "\xff\xd1", "\xff\xd5"), ErrCorrupt, "found marker"},
		{"a restart marker left out", replace(restarts, "\xff\xd1", ""), ErrCorrupt, ""},
		{"a code that is none", replace(restarts, "\xff\xd1", "\xff\xd1\xfe\xfe\xfe\xfe\xfe\xfe"), ErrCorrupt, "bad Huffman code"},
	}
}

func damagedPNGs() []damagedFile {
	spec := pngSpec{w: 20, h: 20, kind: 2, depth: 8, sample: pngScene(8)}
	flip := func(at int) func([]byte) []byte {
		return func(idat []byte) []byte {
			idat[(at+len(idat))%len(idat)] ^= 0x10
			return idat
		}
	}
	with := func(change func(s *pngSpec)) []byte {
		s := spec
		change(&s)
		return writePNG(s)
	}
	plain := writePNG(spec)
	crc := bytes.Clone(plain)
	crc[len(crc)-12-1] ^= 1 // of the last IDAT
	text := chunk("tEXt", []byte("Comment\x00harmless"))
	text[len(text)-1] ^= 1
	return []damagedFile{
		{"trailing bytes", append(bytes.Clone(plain), "what is this"...), nil, ""},
		{"a wrong checksum of text", with(func(s *pngSpec) { s.before = text }), nil, ""},
		{"a wrong checksum of IDAT", crc, ErrCorrupt, "CRC"},
		{"a wrong checksum of the pixels", with(func(s *pngSpec) { s.damage = flip(-1) }), ErrCorrupt, "incorrect data check"},
		{"no IEND", plain[:len(plain)-12], ErrCorrupt, "ends early"},
		{"more pixels than there are", with(func(s *pngSpec) { s.damage = func([]byte) []byte { return deflated(make([]byte, 61*21)) } }), ErrCorrupt, ""},
		{"fewer pixels than there are", with(func(s *pngSpec) { s.damage = func([]byte) []byte { return deflated(make([]byte, 61*19)) } }), ErrCorrupt, ""},
		{"a filter that is none", with(func(s *pngSpec) {
			s.damage = func([]byte) []byte { return deflated(bytes.Repeat([]byte{9}, 61*20)) }
		}), ErrCorrupt, "filter"},
		{"an unknown critical chunk", with(func(s *pngSpec) { s.before = chunk("ABCD", nil) }), ErrCorrupt, ""},
		{"no palette", with(func(s *pngSpec) { s.kind = 3 }), ErrCorrupt, ""},
	}
}

func damagedRest() []damagedFile {
	vp8l := writeVP8L(20, 20, scene)
	webp := riff("VP8L", vp8l)
	ppm := writePNM('6', 9, 9, 100, func(x, y, c int) int { return x })
	ppm[len(ppm)-1] = 101
	rle := func(data ...byte) []byte {
		return writeBMP(bmpSpec{w: 4, h: 2, bits: 8, compression: bmpRLE8, palette: make([][3]uint8, 256), data: data})
	}
	return []damagedFile{
		{"trailing bytes", append(bytes.Clone(webp), "what is this"...), nil, ""},
		{"too little data for its pixels", riff("VP8L", vp8l[:len(vp8l)/2]), ErrCorrupt, ""},
		{"a sample above the maximum", ppm, ErrCorrupt, "101"},
		{"a plain one above the maximum", []byte("P2 2 1 9 3 10 "), ErrCorrupt, "10"},
		{"a plain one of letters", []byte("P2 2 1 9 3 x "), ErrCorrupt, "no number"},
		{"a plain one that is short", []byte("P2 2 1 9 3    "), ErrCorrupt, "ends early"},
		{"a plain one with comments", []byte("P2 2 1 9 3 # three\n 4"), nil, ""},
		{"run past the right edge", rle(9, 1, 0, 0, 4, 2, 0, 1), nil, ""},
		{"run past the last row", rle(4, 1, 0, 0, 4, 2, 0, 0, 1, 1, 0, 1), ErrCorrupt, "height"},
		{"moved past the last row", rle(0, 2, 0, 3, 0, 1), ErrCorrupt, "height"},
		{"no end of bitmap", rle(4, 1, 0, 0, 4, 2, 0, 0), ErrCorrupt, "ends early"},
		{"half a literal", rle(0, 4, 1, 2), ErrCorrupt, "ends early"},
	}
}

func TestDamagedInKnownWays(t *testing.T) {
	for _, set := range codecSets() {
		for _, f := range damagedFiles() {
			h, err := ReadHeader(f.data, true)
			name := set.name + ": " + h.Format.String() + ": " + f.name
			if err == nil {
				_, err = decodeTo(t, set.decoder(t, Options{}), name, f.data, h)
			}
			switch {
			case !errors.Is(err, f.kind):
				t.Errorf("%s: %v, want %v", name, err, f.kind)
			case !set.goes && err != nil && !strings.Contains(err.Error(), f.words):
				t.Errorf("%s: %v, want it to speak of %q", name, err, f.words)
			}
		}
	}
}
