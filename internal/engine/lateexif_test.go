package engine

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"image"
	"image/png"
	"path/filepath"
	"testing"

	"github.com/batchfs/batchfs/internal/testkit"
	"github.com/batchfs/batchfs/layout"
)

// noisePNG is a PNG of picture(i, h, w), about as large as its pixels. Behind the pixels it
// has EXIF data that rotates it to the right, followed by text bytes of text.
func noisePNG(t *testing.T, i, h, w, text int) []byte {
	t.Helper()
	m := image.NewNRGBA(image.Rect(0, 0, w, h))
	p := picture(i, h, w)
	for k := range h * w {
		copy(m.Pix[4*k:], p[3*k:3*k+3])
		m.Pix[4*k+3] = 255
	}
	var b bytes.Buffer
	testkit.Must(t, png.Encode(&b, m))
	chunk := func(kind string, data []byte) []byte {
		c := binary.BigEndian.AppendUint32(nil, uint32(len(data)))
		c = append(append(c, kind...), data...)
		return binary.BigEndian.AppendUint32(c, crc32.ChecksumIEEE(c[4:]))
	}
	exif := []byte("MM\x00*\x00\x00\x00\x08\x00\x01\x01\x12\x00\x03\x00\x00\x00\x01\x00\x06\x00\x00\x00\x00\x00\x00")
	const end = 12
	file := bytes.Clone(b.Bytes()[:b.Len()-end])
	file = append(append(file, chunk("eXIf", exif)...), chunk("tEXt", append([]byte("k\x00"), make([]byte, text)...))...)
	return append(file, b.Bytes()[b.Len()-end:]...)
}

// TestEXIFBehindThePixels: a PNG whose EXIF data follows its pixels, near enough to the end
// of the file, is rotated, both in the index and when it is decoded. The result is the same
// whether all or part of the file is probed.
func TestEXIFBehindThePixels(t *testing.T) {
	for _, c := range []struct {
		h, w, text int
		turned     bool
	}{
		{3, 5, 0, true},          // the first probe covers the whole file
		{40, 60, 900, true},      // 8 KB
		{40, 70, 0, true},        // slightly more
		{90, 100, 0, true},       // less than the part probed at the end
		{200, 150, 0, true},      // more than that
		{200, 150, 60000, true},  //
		{200, 150, 70000, false}, // too far from the end
		{2, 3, 70000, false},     // too far, even though the whole file is read
	} {
		for _, ignore := range []bool{false, true} {
			t.Run(fmt.Sprintf("%dx%d, %d behind, ignored %t", c.h, c.w, c.text, ignore), func(t *testing.T) {
				dir := t.TempDir()
				writeFile(t, filepath.Join(dir, "a.png"), noisePNG(t, 1, c.h, c.w, c.text))
				e := start(t, dir, func(o *Options) { o.BatchSize, o.Decoding.IgnoreOrientation = 1, ignore })
				want, h, w := picture(1, c.h, c.w), c.h, c.w
				if c.turned && !ignore {
					want, h, w = turnedRight(want, h, w), w, h
				}
				if ih, iw := e.catalog.Dataset.Size(0, ignore); ih != h || iw != w {
					t.Errorf("the index says %dx%d, want %dx%d", ih, iw, h, w)
				}
				if s := e.catalog.Spec(Key{}); s.H != h || s.W != w {
					t.Errorf("the batch is %dx%d, want %dx%d", s.H, s.W, h, w)
				}
				if got := read(t, e, Key{}, layout.NHWCForm); !bytes.Equal(got, want) {
					t.Error("other pixels")
				}
			})
		}
	}
}

// turnedRight returns an image rotated so that its left edge becomes the top.
func turnedRight(p []byte, h, w int) (out []byte) {
	for y := range w {
		for x := range h {
			out = append(out, p[((h-1-x)*w+y)*3:][:3]...)
		}
	}
	return out
}
