package decode

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
)

// TestRegions: decoding a region equals decoding everything and cropping, to the last bit, in
// every codec, at every scale, in both colours, turned or not.
func TestRegions(t *testing.T) {
	eachSmallSample(t, func(t *testing.T, set codecSet, s *sample) {
		h, _ := ReadHeader(s.data, true)
		for _, c := range []Color{RGB, Gray} {
			d := set.decoder(t, Options{Color: c})
			for _, scale := range []int{1, 2, 4, 8} {
				if h.scales(scale) {
					n := 6
					if set.light {
						n = 1
					}
					testRegions(t, d, s, h, scale, n)
				}
			}
		}
	})
}

func testRegions(t *testing.T, d *Decoder, s *sample, h Header, scale, regions int) {
	w, hh := h.At(scale)
	whole := decodeRegion(t, d, s.data, h, Region{0, 0, w, hh}, scale)
	random := rand.New(rand.NewPCG(uint64(w), uint64(hh)))
	for i := range regions {
		r := Region{W: 1 + random.IntN(w), H: 1 + random.IntN(hh)}
		r.X, r.Y = random.IntN(w-r.W+1), random.IntN(hh-r.H+1)
		if i == 0 {
			r = Region{w / 2, hh / 2, w - w/2, hh - hh/2} // includes the last corner
		}
		name := fmt.Sprintf("%s in %d channels, %+v at 1/%d of %dx%d", s.name, d.options.Color.Channels(), r, scale, w, hh)
		upright := decodeRegion(t, d, s.data, h, r, scale)
		compare(t, name, upright, cropped(whole, w, d.options.Color.Channels(), r), 0, 0)

		if s.format.Raw() {
			continue // these formats have no orientation
		}
		v := view{Header: h, Region: r, Scale: scale, Color: d.options.Color, Orientation: uint8(1 + random.IntN(8))}
		want, ow, oh := turned(upright, r.W, r.H, v.Color.Channels(), v.Orientation)
		c := newCanvas(ow, oh, v.Color.Channels())
		if err := d.codecs[h.Format](&d.kept, c.Image, s.data, v); err != nil {
			t.Errorf("%s turned by %d: %v", name, v.Orientation, err)
			continue
		}
		compare(t, fmt.Sprintf("%s turned by %d", name, v.Orientation), c.pixels(t, name), want, 0, 0)
	}
}

func decodeRegion(t *testing.T, d *Decoder, data []byte, h Header, r Region, scale int) []byte {
	t.Helper()
	c := newCanvas(r.W, r.H, d.options.Color.Channels())
	if err := d.DecodeRegion(c.Image, data, h, r, scale); err != nil {
		t.Fatalf("%+v at 1/%d: %v", r, scale, err)
	}
	return c.pixels(t, fmt.Sprintf("%+v at 1/%d", r, scale))
}

func cropped(pix []byte, w, c int, r Region) (out []byte) {
	for y := r.Y; y < r.Y+r.H; y++ {
		out = append(out, pix[(y*w+r.X)*c:][:r.W*c]...)
	}
	return out
}

// TestJPEGRegionsExhaustively tests every left and top edge over more than two MCUs, where
// alignment matters, in every kind of JPEG whose regions libjpeg decodes in different ways. The
// pictures have edges everywhere, so that ignoring a neighbour is visible.
func TestJPEGRegionsExhaustively(t *testing.T) {
	files, err := filepath.Glob("testdata/regions/*.jpg")
	if err != nil || len(files) != 28 {
		t.Fatal(files, err)
	}
	for _, set := range codecSets() {
		if set.goes || !set.has(JPEG) {
			continue // Go's codecs decode everything and crop
		}
		for _, name := range files {
			data, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			s := sample{name: filepath.Base(name), data: data, format: JPEG}
			h := headerOf(s.data)
			d := set.decoder(t, Options{})
			for _, scale := range []int{1, 2, 4, 8} {
				sweepRegions(t, d, &s, h, scale)
			}
		}
	}
}

func sweepRegions(t *testing.T, d *Decoder, s *sample, h Header, scale int) {
	w, hh := h.At(scale)
	whole := decodeRegion(t, d, s.data, h, Region{0, 0, w, hh}, scale)
	for at := range min(w, hh) {
		for _, n := range []int{1, 2, 7, 40} {
			r := Region{X: at, Y: at, W: min(n, w-at), H: min(n, hh-at)}
			name := fmt.Sprintf("%s %+v at 1/%d", s.name, r, scale)
			compare(t, name, decodeRegion(t, d, s.data, h, r, scale), cropped(whole, w, 3, r), 0, 0)
			if t.Failed() {
				return
			}
		}
	}
}

// TestJPEGScale compares scaled images with the mean of the pixels that they replace. Scaled
// inverse transforms drop high frequencies instead of averaging, which for a smooth picture is
// the same within a few levels.
func TestJPEGScale(t *testing.T) {
	for _, set := range codecSets() {
		if !set.has(JPEG) {
			continue
		}
		for _, name := range []string{"ycc-1x1-50x39.jpg", "ycc-2x2-50x39.jpg"} {
			s := corpus(name)
			h := headerOf(s.data)
			d := set.decoder(t, Options{})
			for _, scale := range []int{1, 2, 4, 8} {
				w, hh := h.At(scale)
				got := decodeRegion(t, d, s.data, h, Region{0, 0, w, hh}, scale)
				want := paint(w, hh, func(x, y int) (p [3]uint8) {
					var sum [3]int
					n := 0
					for sy := y * scale; sy < min((y+1)*scale, h.Height); sy++ {
						for sx := x * scale; sx < min((x+1)*scale, h.Width); sx++ {
							for c, v := range s.rgb[3*(sy*s.w+sx):][:3] {
								sum[c] += int(v)
							}
							n++
						}
					}
					for c := range p {
						p[c] = uint8((sum[c] + n/2) / n)
					}
					return p
				})
				compare(t, fmt.Sprintf("%s %s at 1/%d", set.name, name, scale), got, want, 14, 2.5)
			}
		}
	}
}

func TestRegionOfTruncated(t *testing.T) {
	eachSmallSample(t, func(t *testing.T, set codecSet, s *sample) {
		h, _ := ReadHeader(s.data, true)
		if s.h < 4 || s.loose > 0 {
			return
		}
		d := set.decoder(t, Options{})
		r := Region{0, 0, s.w, 1}
		c := newCanvas(r.W, r.H, 3)
		for _, n := range []int{len(s.data) - 1, len(s.data) - 2, len(s.data) * 3 / 4} {
			if err := d.DecodeRegion(c.Image, s.data[:n], h, r, 1); !errors.Is(err, ErrCorrupt) {
				t.Errorf("%s: the first row of %d of %d bytes: %v", s.name, n, len(s.data), err)
			}
		}
		if !bytes.Equal(decodeRegion(t, d, s.data, h, r, 1), decodeRegion(t, d, s.data, h, Region{0, 0, s.w, s.h}, 1)[:3*s.w]) {
			t.Errorf("%s: its first row is another after damaged ones", s.name)
		}
	})
}

// TestRegionAboveFilledEnd: fill bytes may precede any marker, including an end marker that is
// only searched for.
func TestRegionAboveFilledEnd(t *testing.T) {
	plain := corpus("plain-61x47.jpg").data
	for fill := range 4 {
		data := append(bytes.Clone(plain[:len(plain)-2]), bytes.Repeat([]byte{0xff}, fill)...)
		data = append(data, 0xff, 0xd9)
		d := NewDecoder(Options{})
		c := newCanvas(61, 1, 3)
		if err := d.DecodeRegion(c.Image, data, headerOf(data), Region{0, 0, 61, 1}, 1); err != nil {
			t.Errorf("%d bytes before the end: %v", fill, err)
		}
		if err := d.DecodeRegion(c.Image, data[:len(data)-1], headerOf(data), Region{0, 0, 61, 1}, 1); !errors.Is(err, ErrCorrupt) {
			t.Errorf("%d bytes before half an end: %v", fill, err)
		}
		d.Close()
	}
}
