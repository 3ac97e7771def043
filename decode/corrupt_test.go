package decode

import (
	"bytes"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
)

// damagedFile is a file that is damaged in one known way, or only seems to be.
type damagedFile struct {
	name  string
	data  []byte
	kind  error  // nil: it must decode
	words string // in the reason, in the native build
	taken bool   // Go's decoders accept it
	// goRefuses: Go's decoder refuses it although it should not; see the package comment.
	goRefuses bool
}

var damagedFiles = sync.OnceValue(func() []damagedFile {
	return slices.Concat(damagedJPEGs(), damagedPNGs(), damagedChunks(), damagedStreams(), damagedRest())
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

func TestDamagedInKnownWays(t *testing.T) {
	for _, set := range codecSets() {
		for _, f := range damagedFiles() {
			h, err := ReadHeader(f.data, true)
			if !set.has(Sniff(f.data)) {
				continue
			}
			name := set.name + ": " + h.Format.String() + ": " + f.name
			if err == nil {
				_, err = decodeTo(t, set.decoder(t, Options{}), name, f.data, h)
			}
			switch {
			case set.goes && f.goRefuses:
				if !errors.Is(err, ErrCorrupt) {
					t.Errorf("%s: %v", name, err)
				}
			case set.goes && f.taken:
				if err != nil {
					t.Errorf("%s: %v", name, err)
				}
			case !errors.Is(err, f.kind):
				t.Errorf("%s: %v, want %v", name, err, f.kind)
			case !set.goes && err != nil && !strings.Contains(err.Error(), f.words):
				t.Errorf("%s: %v, want it to speak of %q", name, err, f.words)
			}
		}
	}
}
