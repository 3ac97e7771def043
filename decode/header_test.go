package decode

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"testing"
)

// TestHeaderPrefixes: a prefix either needs more bytes or says what the whole file says.
func TestHeaderPrefixes(t *testing.T) {
	for _, s := range samples(t) {
		whole, err := ReadHeader(s.data, true)
		if err != nil {
			t.Errorf("%s: %v", s.name, err)
			continue
		}
		for n := range s.data {
			h, err := ReadHeader(s.data[:n:n], false)
			if errors.Is(err, ErrShort) {
				continue
			}
			h = withTail(h, s.data)
			if err != nil || h != whole {
				t.Errorf("%s: its first %d bytes say %+v, %v, all of them %+v", s.name, n, h, err, whole)
				break
			}
		}
		h, err := ReadHeader(append([]byte(nil), s.data...), false)
		if len(s.data) < 12 && errors.Is(err, ErrShort) {
			continue // such a beginning could be that of any format
		}
		if err != nil || withTail(h, s.data) != whole {
			t.Errorf("%s: all of it, not said to be complete: %+v, %v", s.name, h, err)
		}
	}
}

// withTail completes the header of a prefix of data.
func withTail(h Header, data []byte) Header {
	return h.WithTail(bytes.Clone(data[len(data)-h.Tail(int64(len(data))):]))
}

func TestHeaderNeedsEXIF(t *testing.T) {
	tiff := exifWith(6, false)
	vp8l := webpData(corpus("plain-20x10.webp").data)
	data := riff("VP8X", vp8x(webpEXIF, 20, 10), "VP8L", vp8l, "EXIF", tiff)
	for n := range data {
		if _, err := ReadHeader(data[:n], false); n < len(data)-len(tiff)%2 && !errors.Is(err, ErrShort) {
			t.Fatalf("%d of %d bytes: %v", n, len(data), err)
		}
	}
	if h, err := ReadHeader(data, true); err != nil || h.Orientation != 6 {
		t.Errorf("%+v, %v", h, err)
	}
	unflagged := riff("VP8X", vp8x(0, 20, 10), "VP8L", vp8l, "EXIF", tiff)
	if h, err := ReadHeader(unflagged, true); err != nil || h.Orientation != 1 {
		t.Errorf("EXIF that VP8X does not announce: %+v, %v", h, err)
	}
}

func TestHeaderAllocatesNothing(t *testing.T) {
	for _, s := range samples(t) {
		if n := testing.AllocsPerRun(10, func() { ReadHeader(s.data, true) }); n != 0 {
			t.Errorf("%s: %v allocations", s.name, n)
		}
	}
}

func TestEXIF(t *testing.T) {
	good := exifWith(5, false)
	if o := exifOrientation(good); o != 5 {
		t.Fatalf("orientation %d, want 5", o)
	}
	for n := range good {
		exifOrientation(good[:n:n]) // must not panic
	}
	long := exifWith(1, true)
	entry := long[12+12:] // the second one
	binary.BigEndian.PutUint16(entry[2:], 4)
	binary.BigEndian.PutUint32(entry[8:], 7)
	if o := exifOrientation(long); o != 7 {
		t.Errorf("as a long: %d, want 7", o)
	}
	for _, v := range []int{0, 9, 255, 65535} {
		if o := exifOrientation(exifWith(v, true)); o != 1 {
			t.Errorf("value %d: orientation %d", v, o)
		}
	}
	for _, at := range []uint32{0xffffffff, 0xfffffffe, uint32(len(good)), uint32(len(good) - 1)} {
		bad := append([]byte(nil), good...)
		binary.LittleEndian.PutUint32(bad[4:], at)
		if o := exifOrientation(bad); o != 1 {
			t.Errorf("a directory at %#x: orientation %d", at, o)
		}
	}
}

func TestParseFormat(t *testing.T) {
	for f := JPEG; f < numFormats; f++ {
		if g, ok := ParseFormat(f.String()); !ok || g != f {
			t.Errorf("%s is parsed as %s", f, g)
		}
	}
	if _, ok := ParseFormat("unknown"); ok {
		t.Error("unknown is parsed")
	}
	if (numFormats + 3).String() != "unknown" {
		t.Error("an invalid format has a name")
	}
}

// refusedHeaders are files that no Decoder accepts, and what the reason must mention.
func refusedHeaders() map[string]struct {
	data  []byte
	kind  error
	words string
} {
	type refused = struct {
		data  []byte
		kind  error
		words string
	}
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
	return map[string]refused{
		"nothing":           {nil, ErrFormat, "empty"},
		"text":              {[]byte("this is not an image at all"), ErrFormat, "does not begin like JPEG"},
		"gif":               {[]byte("GIF89a\x01\x00\x01\x00\x00\x00\x00\x00"), ErrFormat, "does not begin like JPEG"},
		"pbm":               {[]byte("P4\n8 1\n\xff"), ErrFormat, "does not begin like JPEG"},
		"lossless jpeg":     {patch(sof+1, 0xc3), ErrFormat, "lossless"},
		"hierarchical jpeg": {patch(sof+1, 0xc5), ErrFormat, "hierarchical"},
		"12-bit jpeg":       {patch(sof+4, 12), ErrFormat, "12 bits"},
		"jpeg of height 0":  {patch(sof+5, 0, 0), ErrFormat, "height"},
		"jpeg of width 0":   {patch(sof+7, 0, 0), ErrCorrupt, "width"},
		"jpeg too wide":     {patch(sof+7, 0xff, 0xff), ErrFormat, "65500"},
		"jpeg sampling":     {patch(sof+11, 0x05), ErrCorrupt, "sampling"},
		"jpeg of 2 components": {append([]byte("\xff\xd8\xff\xc0\x00\x0e\x08\x00\x08\x00\x08\x02\x01\x11\x00\x02\x11\x00"),
			jpeg[sof+19:]...), ErrFormat, "2 components"},
		"jpeg without image":   {[]byte("\xff\xd8\xff\xe0\x00\x04ab\xff\xd9"), ErrCorrupt, "no image data"},
		"jpeg segment":         {[]byte("\xff\xd8\xff\xe0\x00\x01ab\xff\xd9"), ErrCorrupt, "length"},
		"jpeg twice begun":     {append([]byte("\xff\xd8"), jpeg...), ErrCorrupt, "second start"},
		"png without IHDR":     {append([]byte(pngSignature), png[33:]...), ErrCorrupt, "IHDR"},
		"png checksum":         {badCRC, ErrCorrupt, "checksum"},
		"png colour":           {pngWith(4, 4, 4, 2), ErrCorrupt, "colour type"},
		"png of width 0":       {pngWith(0, 4, 8, 2), ErrCorrupt, "0x4"},
		"png too wide":         {pngWith(1<<31-1, 4, 8, 2), ErrFormat, "side"},
		"png without image":    {append(append([]byte(nil), png[:33]...), chunk("IEND", nil)...), ErrCorrupt, "no image data"},
		"webp without frames":  {riff("VP8X", vp8x(webpAnimation, 20, 10), "ANIM", make([]byte, 6)), ErrCorrupt, "no image data"},
		"animation frames":     {riff("VP8X", vp8x(0, 20, 10), "ANMF", make([]byte, 24)), ErrFormat, "animation"},
		"frame without ANIM":   {riff("VP8X", vp8x(webpAnimation, 20, 10), "ANMF", webpFrame(0, 0, 20, 10, "VP8L", vp8l)), ErrCorrupt, "ANIM"},
		"frame off the canvas": {riff("VP8X", vp8x(webpAnimation, 20, 10), "ANIM", make([]byte, 6), "ANMF", webpFrame(2, 0, 20, 10, "VP8L", vp8l)), ErrCorrupt, "canvas"},
		"frame of other size":  {riff("VP8X", vp8x(webpAnimation, 39, 19), "ANIM", make([]byte, 6), "ANMF", webpFrame(2, 0, 21, 10, "VP8L", vp8l)), ErrCorrupt, "frame of 21x10"},
		"empty frame":          {riff("VP8X", vp8x(webpAnimation, 39, 19), "ANIM", make([]byte, 6), "ANMF", webpFrame(2, 0, 21, 10)), ErrCorrupt, "without an image"},
		"image in animation":   {riff("VP8X", vp8x(webpAnimation, 20, 10), "ANIM", make([]byte, 6), "VP8L", vp8l), ErrCorrupt, "no frame"},
		"webp canvas":          {riff("VP8X", vp8x(0, 21, 10), "VP8L", vp8l), ErrCorrupt, "canvas"},
		"webp without image":   {riff("VP8X", vp8x(0, 5, 4), "ICCP", make([]byte, 6)), ErrCorrupt, "no image data"},
		"webp inter frame":     {riff("VP8 ", []byte("\x01\x00\x00\x9d\x01\x2a\x04\x00\x04\x00")), ErrCorrupt, "key frame"},
		"webp small chunk":     {riff("VP8L", []byte{0x2f, 0}), ErrCorrupt, "VP8L"},
		"bmp of jpeg":          {bmp(rawBMP{w: 4, h: 4, bits: 24, compression: 4}), ErrFormat, "compression"},
		"bmp of 3 bits":        {bmp(rawBMP{w: 4, h: 4, bits: 3}), ErrCorrupt, "3 bits"},
		"bmp of odd header":    {bmp(rawBMP{w: 4, h: 4, bits: 24, info: 41}), ErrFormat, "41 bytes"},
		"bmp fields":           {bmp(rawBMP{w: 4, h: 4, bits: 16, compression: bmpBitfields, masks: []uint32{5, 2, 8}}), ErrCorrupt, "channel"},
		"bmp rle from the top": {bmp(rawBMP{w: 4, h: -4, bits: 8, compression: bmpRLE8}), ErrCorrupt, "from the top"},
		"bmp of width 0":       {bmp(rawBMP{w: 0, h: 4, bits: 24}), ErrCorrupt, "0x4"},
		"bmp of the wide":      {bmp(rawBMP{w: 1 << 28, h: 0, bits: 24}), ErrCorrupt, "x0"},
		"ppm of no numbers":    {[]byte("P6 a b 255 aaaaaaaaa"), ErrCorrupt, "no number"},
		"ppm of maximum 0":     {[]byte("P6 1 1 0 aaaaaaaaa"), ErrCorrupt, "maximum"},
		"ppm of huge maximum":  {[]byte("P6 1 1 65536 aaaaaaaaa"), ErrCorrupt, "maximum"},
		"ppm too wide":         {[]byte("P6 99999999999999999999 1 255 aaaaaaaaa"), ErrFormat, "side"},
		"ppm header's end":     {[]byte("P6 1 1 255#aaaaaaaaa"), ErrCorrupt, "white space"},
	}
}

func TestRefusedHeaders(t *testing.T) {
	for name, r := range refusedHeaders() {
		_, err := ReadHeader(r.data, true)
		if !errors.Is(err, r.kind) || !strings.Contains(fmt.Sprint(err), r.words) {
			t.Errorf("%s: %v; want %v, with %q", name, err, r.kind, r.words)
		}
	}
}
