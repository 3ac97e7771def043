package decode

import (
	"bytes"
	"errors"
	"slices"
	"testing"
)

// pngEXIF is a PNG of 5x3, and its orientation.
type pngEXIF struct {
	name        string
	data        []byte
	orientation uint8
	kind        error // of the error from decoding it
	goTakes     bool  // Go's decoder accepts it; see damagedFiles
}

func pngEXIFs() []pngEXIF {
	file := func(before, after []byte) []byte {
		return edited(corpus("rgb-8-5x3.png").data, func(s *pngParts) { s.before, s.after = before, after })
	}
	exif := func(orientation int) []byte { return chunk("eXIf", exifWith(orientation, orientation&1 == 0)) }
	damaged := func(b []byte) []byte {
		b = slices.Clone(b)
		b[len(b)-1] ^= 1
		return b
	}
	text := func(n int) []byte { return chunk("tEXt", append([]byte("Comment\x00"), make([]byte, n)...)) }
	noTIFF := chunk("eXIf", []byte("neither order of bytes"))
	all := slices.Concat[[]byte]
	end := len(pngEnd)
	plain, late := file(nil, nil), file(nil, exif(6))
	large := all(plain[:len(plain)-end], text(200_000), exif(6), text(1000), pngEnd)
	inside := edited(plain, func(s *pngParts) { s.idat = all(s.idat[:len(s.idat)-4], exif(6)) })
	at := bytes.Index(plain[50:], []byte("IDAT")) + 50 - 4 // the second
	split := all(plain[:at], exif(6), plain[at:])
	return []pngEXIF{
		{name: "none", data: plain, orientation: 1},
		{name: "before the pixels", data: file(exif(6), nil), orientation: 6},
		{name: "behind them", data: late, orientation: 6},
		{name: "behind them and other chunks", data: file(nil, all(text(9), exif(5), text(7))), orientation: 5},
		{name: "both", data: file(exif(6), exif(3)), orientation: 6},
		{name: "both, the first without an orientation", data: file(exif(1), exif(3)), orientation: 1},
		{name: "both, the first damaged", data: file(damaged(exif(6)), exif(8)), orientation: 8},
		{name: "both, the first of something else", data: file(noTIFF, exif(8)), orientation: 8},
		{name: "two before", data: file(all(exif(6), exif(3)), nil), orientation: 3},
		{name: "two behind", data: file(nil, all(exif(6), exif(3))), orientation: 3},
		{name: "two behind, one damaged", data: file(nil, all(exif(6), damaged(exif(3)))), orientation: 6},
		{name: "two behind, the other damaged", data: file(nil, all(damaged(exif(6)), exif(3))), orientation: 3},
		{name: "damaged before", data: file(damaged(exif(3)), nil), orientation: 1},
		{name: "damaged behind", data: file(nil, damaged(exif(6))), orientation: 1},
		{name: "before a damaged text", data: file(nil, all(exif(6), damaged(text(5)))), orientation: 6},
		{name: "something else behind", data: file(nil, noTIFF), orientation: 1},
		{name: "bytes behind the end", data: all(late, []byte("\n")), orientation: 6},
		{name: "many bytes behind the end", data: all(late, make([]byte, pngTail-100)), orientation: 6},
		{name: "too many bytes behind the end", data: all(late, make([]byte, pngTail)), orientation: 1},
		{name: "another image behind the end", data: all(plain, late), orientation: 1},
		{name: "alone behind the end", data: all(plain, exif(6), pngEnd), orientation: 1},
		{name: "large", data: large, orientation: 6},
		{name: "just in the end", data: file(nil, all(exif(6), text(pngTail-len(exif(6))-20-end))), orientation: 6},
		{name: "half in the end", data: file(nil, all(exif(6), text(pngTail-len(exif(6))-20-end+1))), orientation: 1},
		{name: "far from the end", data: file(nil, all(exif(6), text(pngTail))), orientation: 1},
		{name: "in a text", data: file(nil, chunk("tEXt", all([]byte("k\x00"), exif(6)))), orientation: 1},
		{name: "in the pixels", data: inside, orientation: 1, kind: ErrCorrupt},
		{name: "in a text, twenty times, and behind it", data: file(nil, all(chunk("tEXt", bytes.Repeat([]byte("eXIf"), 20)), exif(6))), orientation: 6},
		{name: "behind too many that are damaged", data: file(nil, all(bytes.Repeat(damaged(exif(3)), pngTries), exif(6))), orientation: 1},
		{name: "between the pixels", data: split, orientation: 1, kind: ErrCorrupt, goTakes: true},
		{name: "cut in the end", data: late[:len(late)-1], orientation: 1, kind: ErrCorrupt},
		{name: "cut before the end", data: late[:len(late)-end], orientation: 1, kind: ErrCorrupt},
		{name: "cut in EXIF", data: late[:len(late)-end-3], orientation: 1, kind: ErrCorrupt},
		{name: "cut in the pixels", data: late[:at+10], orientation: 1, kind: ErrCorrupt},
		{name: "a length beyond the file", data: all(late[:len(late)-end], []byte("\x7f\xff\xff\xffeXIfII*\x00"), pngEnd), orientation: 1, kind: ErrCorrupt},
	}
}

// TestPNGEXIF: wherever a PNG's EXIF is, the beginning and the end of the file together give the
// same header as the whole file.
func TestPNGEXIF(t *testing.T) {
	for _, c := range pngEXIFs() {
		whole, err := ReadHeader(c.data, true)
		if err != nil || whole.Orientation != c.orientation || whole.pixelsAt != 0 {
			t.Errorf("%s: %+v, %v, want orientation %d", c.name, whole, err, c.orientation)
		}
		size := len(c.data)
		for n := range size {
			if n > 1000 && n%4096 > 1 && n < size-100 {
				continue
			}
			h, err := ReadHeader(c.data[:n:n], false)
			if errors.Is(err, ErrShort) {
				continue
			}
			tail := h.Tail(int64(size))
			if err != nil || tail > pngTail || withTail(h, c.data) != whole {
				t.Errorf("%s: the first %d bytes and the last %d say %+v, %v; all of them %+v", c.name, n, tail, h, err, whole)
				break
			}
		}
	}
	early := pngEXIFs()[1].data
	if h, err := ReadHeader(early[:len(early)-20], false); err != nil || h.Tail(int64(len(early))) != 0 {
		t.Errorf("with EXIF before its pixels a file's end is asked for: %+v, %v", h, err)
	}
}

// TestPNGEXIFDecoded: pixels are turned as EXIF says, wherever it is in the file.
func TestPNGEXIFDecoded(t *testing.T) {
	stored := corpus("rgb-8-5x3.png").rgb
	for _, set := range codecSets() {
		if !set.has(PNG) {
			continue
		}
		for _, ignore := range []bool{false, true} {
			for _, c := range pngEXIFs() {
				h := headerOf(c.data)
				o := Options{IgnoreOrientation: ignore}
				want := uint8(1)
				if !ignore {
					want = c.orientation
				}
				pix, err := decodeTo(t, set.decoder(t, o), c.name, c.data, h)
				if !errors.Is(err, c.kind) && !(set.goes && c.goTakes) {
					t.Errorf("%s: %s: %v, want %v", set.name, c.name, err, c.kind)
				}
				if upright, _, _ := turned(stored, 5, 3, 3, want); err == nil && !bytes.Equal(pix, upright) {
					t.Errorf("%s: %s: ignored %t: other pixels", set.name, c.name, ignore)
				}
			}
		}
	}
}
