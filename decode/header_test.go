package decode_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"slices"
	"testing"

	. "github.com/batchfs/batchfs/decode"
)

// TestHeaderPrefixes: a prefix either needs more bytes or gives the same header as the whole file.
func TestHeaderPrefixes(t *testing.T) {
	all := filesOf(samples(t))
	for _, c := range pngEXIFs() {
		all = append(all, c.file)
	}
	for _, f := range all {
		whole, err := ReadHeader(f.data, true)
		if err != nil || withTail(whole, f.data) != whole {
			t.Errorf("%s: %+v, %v", f.name, whole, err)
			continue
		}
		size := len(f.data)
		for n := range size + 1 {
			if n > 1000 && n%4096 > 1 && n < size-100 {
				continue
			}
			h, err := ReadHeader(f.data[:n:n], false)
			if errors.Is(err, ErrShort) && (n < size || size < 12) { // so few bytes could be of any format
				continue
			}
			if tail := h.Tail(int64(size)); err != nil || tail > pngTail || withTail(h, f.data) != whole {
				t.Errorf("%s: its first %d bytes and the last %d say %+v, %v, all of them %+v", f.name, n, tail, h, err, whole)
				break
			}
		}
	}
	early := pngEXIFs()[1].data
	if h, err := ReadHeader(early[:len(early)-20], false); err != nil || h.Tail(int64(len(early))) != 0 {
		t.Errorf("with EXIF before its pixels a file's end is asked for: %+v, %v", h, err)
	}
	animation := testFile("animated-lossy.webp")
	if _, err := ReadHeader(animation[:200], false); err != nil {
		t.Errorf("more than 200 bytes are needed for the header of an image that starts before them: %v", err)
	}
}

// withTail completes the header of a prefix of data.
func withTail(h Header, data []byte) Header {
	return h.WithTail(bytes.Clone(data[len(data)-h.Tail(int64(len(data))):]))
}

// TestEXIF: an orientation is found wherever it is in EXIF, and anything invalid is 1.
func TestEXIF(t *testing.T) {
	read := func(tiff []byte) uint8 { return headerOf(withEXIF(corpus("plain-20x10.jpg").data, tiff)).Orientation }
	good, long := exifWith(5, false), exifWith(1, true)
	entry := long[12+12:] // the second one
	binary.BigEndian.PutUint16(entry[2:], 4)
	binary.BigEndian.PutUint32(entry[8:], 7)
	if o, p := read(good), read(long); o != 5 || p != 7 {
		t.Errorf("orientations %d and, as a long, %d", o, p)
	}
	for n := range good {
		if o := read(good[:n:n]); o != 1 && o != 5 {
			t.Errorf("the first %d bytes: %d", n, o)
		}
	}
	for _, v := range []int{0, 9, 255, 65535} {
		if o := read(exifWith(v, true)); o != 1 {
			t.Errorf("value %d: orientation %d", v, o)
		}
	}
	for _, at := range []uint32{0xffffffff, 0xfffffffe, uint32(len(good)), uint32(len(good) - 1)} {
		bad := bytes.Clone(good)
		binary.LittleEndian.PutUint32(bad[4:], at)
		if o := read(bad); o != 1 {
			t.Errorf("a directory at %#x: orientation %d", at, o)
		}
	}
	vp8l := webpData(corpus("plain-20x10.webp").data)
	for flag, want := range map[byte]uint8{webpEXIF: 5, 0: 1} { // without it, VP8X does not announce EXIF
		data := riff("VP8X", vp8x(flag, 20, 10), "VP8L", vp8l, "EXIF", good)
		if h, err := ReadHeader(data, true); err != nil || h.Orientation != want {
			t.Errorf("flags %d: %+v, %v", flag, h, err)
		}
	}
}

func TestParseFormat(t *testing.T) {
	for f := JPEG; f <= Packed; f++ {
		if g, ok := ParseFormat(f.String()); !ok || g != f {
			t.Errorf("%s is parsed as %s", f, g)
		}
	}
	if _, ok := ParseFormat("unknown"); ok {
		t.Error("unknown is parsed")
	}
	if (Packed + 4).String() != "unknown" {
		t.Error("an invalid format has a name")
	}
}

const pngTail = 64 << 10 // how much of a file's end is searched

// pngEXIF is a PNG of 5x3, and its orientation.
type pngEXIF struct {
	file
	orientation uint8
	kind        error // of the error from decoding it
	goTakes     bool  // Go's decoder accepts it
}

func pngEXIFs() []pngEXIF {
	with := func(before, after []byte) []byte {
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
	pngEnd := chunk("IEND", nil)
	end := len(pngEnd)
	plain, late := with(nil, nil), with(nil, exif(6))
	large := all(plain[:len(plain)-end], text(200_000), exif(6), text(1000), pngEnd)
	inside := edited(plain, func(s *pngParts) { s.idat = all(s.idat[:len(s.idat)-4], exif(6)) })
	at := bytes.Index(plain[50:], []byte("IDAT")) + 50 - 4 // the second
	split := all(plain[:at], exif(6), plain[at:])
	return []pngEXIF{
		{file: file{"none", plain}, orientation: 1},
		{file: file{"before the pixels", with(exif(6), nil)}, orientation: 6},
		{file: file{"behind them", late}, orientation: 6},
		{file: file{"behind them and other chunks", with(nil, all(text(9), exif(5), text(7)))}, orientation: 5},
		{file: file{"both", with(exif(6), exif(3))}, orientation: 6},
		{file: file{"both, the first without an orientation", with(exif(1), exif(3))}, orientation: 1},
		{file: file{"both, the first damaged", with(damaged(exif(6)), exif(8))}, orientation: 8},
		{file: file{"both, the first of something else", with(noTIFF, exif(8))}, orientation: 8},
		{file: file{"two before", with(all(exif(6), exif(3)), nil)}, orientation: 3},
		{file: file{"two behind", with(nil, all(exif(6), exif(3)))}, orientation: 3},
		{file: file{"two behind, one damaged", with(nil, all(exif(6), damaged(exif(3))))}, orientation: 6},
		{file: file{"two behind, the other damaged", with(nil, all(damaged(exif(6)), exif(3)))}, orientation: 3},
		{file: file{"damaged before", with(damaged(exif(3)), nil)}, orientation: 1},
		{file: file{"damaged behind", with(nil, damaged(exif(6)))}, orientation: 1},
		{file: file{"before a damaged text", with(nil, all(exif(6), damaged(text(5))))}, orientation: 6},
		{file: file{"something else behind", with(nil, noTIFF)}, orientation: 1},
		{file: file{"bytes behind the end", all(late, []byte("\n"))}, orientation: 6},
		{file: file{"many bytes behind the end", all(late, make([]byte, pngTail-100))}, orientation: 6},
		{file: file{"too many bytes behind the end", all(late, make([]byte, pngTail))}, orientation: 1},
		{file: file{"another image behind the end", all(plain, late)}, orientation: 1},
		{file: file{"alone behind the end", all(plain, exif(6), pngEnd)}, orientation: 1},
		{file: file{"large", large}, orientation: 6},
		{file: file{"just in the end", with(nil, all(exif(6), text(pngTail-len(exif(6))-20-end)))}, orientation: 6},
		{file: file{"half in the end", with(nil, all(exif(6), text(pngTail-len(exif(6))-20-end+1)))}, orientation: 1},
		{file: file{"far from the end", with(nil, all(exif(6), text(pngTail)))}, orientation: 1},
		{file: file{"in a text", with(nil, chunk("tEXt", all([]byte("k\x00"), exif(6))))}, orientation: 1},
		{file: file{"in the pixels", inside}, orientation: 1, kind: ErrCorrupt},
		{file: file{"in a text, twenty times, and behind it", with(nil, all(chunk("tEXt", bytes.Repeat([]byte("eXIf"), 20)), exif(6)))}, orientation: 6},
		{file: file{"behind too many that are damaged", with(nil, all(bytes.Repeat(damaged(exif(3)), 8), exif(6)))}, orientation: 1},
		{file: file{"between the pixels", split}, orientation: 1, kind: ErrCorrupt, goTakes: true},
		{file: file{"cut in the end", late[:len(late)-1]}, orientation: 1, kind: ErrCorrupt},
		{file: file{"cut before the end", late[:len(late)-end]}, orientation: 1, kind: ErrCorrupt},
		{file: file{"cut in EXIF", late[:len(late)-end-3]}, orientation: 1, kind: ErrCorrupt},
		{file: file{"cut in the pixels", late[:at+10]}, orientation: 1, kind: ErrCorrupt},
		{file: file{"a length beyond the file", all(late[:len(late)-end], []byte("\x7f\xff\xff\xffeXIfII*\x00"), pngEnd)}, orientation: 1, kind: ErrCorrupt},
	}
}

// TestPNGEXIF: pixels are turned by a PNG's EXIF, wherever in the file it is, unless the
// orientation is ignored.
func TestPNGEXIF(t *testing.T) {
	plain, c := corpus("rgb-8-5x3.png"), newCoders(t)
	for _, f := range pngEXIFs() {
		a := whole(f.file)
		if a.head.Orientation != f.orientation {
			t.Errorf("%s: %+v, want orientation %d", f.name, a.head, f.orientation)
		}
		for i, k := range slices.Concat(kernelsOf(PNG), kernelsOf(PNG)) {
			o, want := Options{Kernel: k, IgnoreOrientation: i%2 == 0}, f.orientation
			if o.IgnoreOrientation {
				want = 1
			}
			x := c.with(o).decode(t, a)
			if !errors.Is(x.err, f.kind) && !(k == Pure && f.goTakes) {
				t.Errorf("%s: %s: %v, want %v", k, f.name, x.err, f.kind)
			}
			if upright, _, _ := turned(plain.rgb, 5, 3, 3, want); x.err == nil && !bytes.Equal(x.pix, upright) {
				t.Errorf("%s: %s: ignored %t: other pixels", k, f.name, o.IgnoreOrientation)
			}
		}
	}
}
