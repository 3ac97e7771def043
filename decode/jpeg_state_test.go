package decode

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// testFile reads one of testdata's files, all of which were made by other encoders.
func testFile(t testing.TB, name string) []byte {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return data
}

type oddFile struct {
	name string
	data []byte
}

// oddFiles are files of all formats that lack something needed for decoding, or have it in
// unusual ways.
func oddFiles(t testing.TB) (out []oddFile) {
	add := func(name string, data []byte) { out = append(out, oddFile{name, data}) }
	for _, f := range []oddFile{{"plain", corpus("plain-37x21.jpg").data}, {"coarse", corpus("optimized.jpg").data},
		{"progressive", corpus("progressive.jpg").data}, {"with restarts", corpus("restarts.jpg").data}, {"rough", testFile(t, "huffman.jpg")},
		{"rough, progressive", testFile(t, "progressive.jpg")}, {"arithmetic", testFile(t, "arithmetic.jpg")}} {
		add(f.name, f.data)
		add(f.name+" without DHT", without(f.data, markDHT))
		add(f.name+" without DQT", without(f.data, markDQT))
		add(f.name+" without either", without(without(f.data, markDHT), markDQT))
		add(f.name+" without DRI", without(f.data, markDRI))
		add(f.name+" cut", f.data[:len(f.data)*3/4])
	}
	for n := 1; n <= 3; n++ {
		add(fmt.Sprintf("%d scans", n), scansUpTo(testFile(t, "progressive.jpg"), n))
	}
	for _, s := range allSamples() {
		if ink := strings.HasPrefix(s.name, "cmyk") || strings.HasPrefix(s.name, "ycck"); ink {
			add(s.name, s.data)
			add(s.name+" without Adobe", without(s.data, markAPP14))
		}
	}
	for _, s := range rotatable(20, 10, 6, false) {
		add(s.name, s.data)
		add(s.name+" cut", s.data[:len(s.data)*3/4])
	}
	for _, n := range []int{0, 1, 256} {
		for _, name := range []string{"palette-8-33x19", "palette-8-33x19-interlaced"} {
			data := edited(corpus(name+".png").data, func(s *pngParts) {
				if s.before = nil; n > 0 {
					s.before = chunk("PLTE", bytes.Repeat([]byte{200, 100, 50}, n))
				}
			})
			add(fmt.Sprintf("%s with a palette of %d", name, n), data)
		}
	}
	for _, name := range []string{"lossy-30x20.webp", "lossy-alpha.webp"} {
		add(name, corpus(name).data)
	}
	return out
}

// verdict is the result of decoding a file.
type verdict struct {
	err string
	pix []byte
}

func verdictOf(t testing.TB, d *Decoder, f oddFile, scale int) (v verdict) {
	t.Helper()
	h, err := ReadHeader(f.data, true)
	if err != nil {
		return verdict{err: err.Error()}
	}
	if !h.scales(scale) {
		scale = 1
	}
	w, hh := h.At(scale)
	height, width := Header{Width: w, Height: hh, Orientation: h.Orientation}.Size(false)
	c := newCanvas(width, height, d.options.Color.Channels())
	err = d.DecodeRegion(c.Image, f.data, h, Region{0, 0, w, hh}, scale)
	if v.pix = c.pixels(t, f.name); err != nil {
		return verdict{err: err.Error()}
	}
	return v
}

// TestNothingOfOneImageInTheNext decodes every ordered pair of odd files on one decoder. The
// result for the second must be the same as on a new decoder.
func TestNothingOfOneImageInTheNext(t *testing.T) {
	files := oddFiles(t)
	for _, set := range codecSets() {
		if set.goes && set.light {
			continue // Go's decoders keep nothing
		}
		alone := make([]verdict, len(files))
		good := 0
		for i, f := range files {
			d := set.decoder(t, Options{})
			if alone[i] = verdictOf(t, d, f, 1); alone[i].err == "" {
				good++
			}
			d.Close()
		}
		if good < 10 || good > len(files)-10 {
			t.Fatalf("%s: %d of %d files are good: the set is not odd", set.name, good, len(files))
		}
		d := set.decoder(t, Options{})
		for _, first := range files {
			for i, second := range files {
				verdictOf(t, d, first, 2)
				if v := verdictOf(t, d, second, 1); v.err != alone[i].err || !bytes.Equal(v.pix, alone[i].pix) {
					t.Errorf("%s: %q after %q: %q, want %q, or other pixels", set.name, second.name, first.name, v.err, alone[i].err)
				}
			}
		}
	}
}

// TestMotionJPEG: a file without Huffman tables uses the standard ones, as in libjpeg-turbo.
func TestMotionJPEG(t *testing.T) {
	set := codecSets()[0]
	if set.goes {
		t.Skip("Go's decoder refuses them")
	}
	whole := testFile(t, "huffman.jpg")
	frame := oddFile{"a frame", without(whole, markDHT)}
	got, want := verdictOf(t, set.decoder(t, Options{}), frame, 1), verdictOf(t, set.decoder(t, Options{}), oddFile{"whole", whole}, 1)
	if got.err != "" || !bytes.Equal(got.pix, want.pix) {
		t.Errorf("without tables: %q, or other pixels", got.err)
	}
}
