package decode

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
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
				if scales(s.format, scale) {
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
		v := View{Header: h, Region: r, Scale: scale, Color: d.options.Color, Orientation: uint8(1 + random.IntN(8))}
		want, ow, oh := turned(upright, r.W, r.H, v.Color.Channels(), v.Orientation)
		c := newCanvas(ow, oh, v.Color.Channels())
		if err := d.codecs[h.Format].Decode(c.Image, s.data, v); err != nil {
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

// regionSpecs are the kinds of JPEG whose regions libjpeg decodes in different ways.
func regionSpecs(w, h int) map[string]jpegSpec {
	specs := map[string]jpegSpec{}
	for _, f := range [][2]byte{{1, 1}, {2, 1}, {1, 2}, {2, 2}, {4, 1}, {4, 2}, {1, 4}, {2, 4}, {3, 1}} {
		s := jpegSpec{w: w, h: h, comps: ycc(f[0], f[1]), jfif: true, adobe: -1, quant: 8}
		name := fmt.Sprintf("%dx%d", f[0], f[1])
		specs[name] = s
		s.progressive = true
		specs[name+" progressive"] = s
		s.progressive, s.restart = false, 3
		specs[name+" with restarts"] = s
	}
	specs["gray"] = jpegSpec{w: w, h: h, comps: ycc(2, 2)[:1], adobe: -1, quant: 8}
	return specs
}

// busy has edges everywhere, so that ignoring a neighbour is visible.
func busy(x, y int) float64 { return float64((x*89 + y*57 + x*y*31) & 255) }

// TestJPEGRegionsExhaustively tests every left and top edge over more than two MCUs, where
// alignment matters.
func TestJPEGRegionsExhaustively(t *testing.T) {
	for _, set := range codecSets() {
		if set.goes || !set.has(JPEG) {
			continue // Go's codecs decode everything and crop
		}
		for name, spec := range regionSpecs(83, 75) {
			for i := range spec.comps {
				shift := i
				spec.comps[i].at = func(x, y int) float64 { return busy(x+7*shift, y) }
			}
			s := sample{name: name, data: writeJPEG(spec), format: JPEG}
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
		for _, factors := range [][2]byte{{1, 1}, {2, 2}} {
			data := writeJPEG(jpegSpec{w: 53, h: 41, comps: ycc(factors[0], factors[1]), adobe: -1})
			h := headerOf(data)
			d := set.decoder(t, Options{})
			for _, scale := range []int{1, 2, 4, 8} {
				w, hh := h.At(scale)
				got := decodeRegion(t, d, data, h, Region{0, 0, w, hh}, scale)
				want := paint(w, hh, func(x, y int) (p [3]uint8) {
					var sum [3]float64
					n := 0.0
					for sy := y * scale; sy < min((y+1)*scale, h.Height); sy++ {
						for sx := x * scale; sx < min((x+1)*scale, h.Width); sx++ {
							for c, v := range soft(sx, sy) {
								sum[c] += v
							}
							n++
						}
					}
					for c := range p {
						p[c] = uint8(sum[c]/n + .5)
					}
					return p
				})
				compare(t, fmt.Sprintf("%s %v at 1/%d", set.name, factors, scale), got, want, 14, 2.5)
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
	plain := writeJPEG(jpegSpec{w: 40, h: 40, comps: ycc(2, 2), adobe: -1})
	for fill := range 4 {
		data := append(bytes.Clone(plain[:len(plain)-2]), bytes.Repeat([]byte{0xff}, fill)...)
		data = append(data, 0xff, 0xd9)
		d := NewDecoder(Options{})
		c := newCanvas(40, 1, 3)
		if err := d.DecodeRegion(c.Image, data, headerOf(data), Region{0, 0, 40, 1}, 1); err != nil {
			t.Errorf("%d bytes before the end: %v", fill, err)
		}
		if err := d.DecodeRegion(c.Image, data[:len(data)-1], headerOf(data), Region{0, 0, 40, 1}, 1); !errors.Is(err, ErrCorrupt) {
			t.Errorf("%d bytes before half an end: %v", fill, err)
		}
		d.Close()
	}
}
