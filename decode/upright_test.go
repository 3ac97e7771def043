package decode

import (
	"fmt"
	"math/rand/v2"
	"testing"
)

// TestStoredRegion: decoding a region equals decoding the whole upright image at that scale and
// cropping it.
func TestStoredRegion(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	for orientation := 1; orientation <= 8; orientation++ {
		for _, size := range [][2]int{{1, 1}, {37, 21}, {16, 35}, {3, 50}} {
			for _, s := range rotatable(size[0], size[1], orientation, false) {
				for _, o := range []Options{{}, {Color: Gray}, {IgnoreOrientation: true}} {
					for _, scale := range []int{1, 2, 4, 8} {
						if headerOf(s.data).scales(scale) {
							testStoredRegion(t, random, o, &s, scale)
						}
					}
				}
			}
		}
	}
}

func testStoredRegion(t *testing.T, random *rand.Rand, o Options, s *sample, scale int) {
	h := headerOf(s.data)
	d := NewDecoder(o)
	defer d.Close()
	w, hh := h.At(scale)
	small := Header{Width: w, Height: hh, Orientation: h.Orientation}
	height, width := small.Size(o.IgnoreOrientation)
	whole := newCanvas(width, height, o.Color.Channels())
	if err := d.DecodeRegion(whole.Image, s.data, h, Region{0, 0, w, hh}, scale); err != nil {
		t.Fatal(err)
	}
	for range 6 {
		r := Region{W: 1 + random.IntN(width), H: 1 + random.IntN(height)}
		r.X, r.Y = random.IntN(width-r.W+1), random.IntN(height-r.H+1)
		name := fmt.Sprintf("%s of %dx%d turned by %d, %+v at 1/%d with %+v", s.name, s.w, s.h, s.orientation, r, scale, o)
		part := newCanvas(r.W, r.H, o.Color.Channels())
		if err := d.DecodeRegion(part.Image, s.data, h, o.StoredRegion(h, r, scale), scale); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		compare(t, name, part.pixels(t, name), cropped(whole.pixels(t, name), width, o.Color.Channels(), r), 0, 0)
	}
}

// upright returns where pixel (x, y) of a stored w x h image goes.
func upright(orientation uint8, w, h, x, y int) (ux, uy int) {
	width := w
	if transposes(orientation) {
		width = h
	}
	p := place(orientation, w, h, 1, width)
	at := p.base + x*p.dx + y*p.dy
	return at % width, at / width
}

// TestScaleOffset: a stored pixel's place in the upright image, and the place of the scaled
// pixel that covers it, agree, up to the edge.
func TestScaleOffset(t *testing.T) {
	for o := uint8(1); o <= 8; o++ {
		for _, scale := range []int{1, 2, 4, 8} {
			for w := 2; w <= 35; w += 3 {
				for h := 2; h <= 35; h++ {
					testScaleOffset(t, Header{Width: w, Height: h, Orientation: o}, scale)
				}
			}
		}
	}
	h := Header{Width: 13, Height: 7, Orientation: 3}
	if y, x := (Options{IgnoreOrientation: true}).ScaleOffset(h, 8); x != 0 || y != 0 {
		t.Errorf("orientation ignored: %v, %v", y, x)
	}
	if y, x := (Options{}).ScaleOffset(h, 8); x != 3./8 || y != 1./8 {
		t.Errorf("13x7 upside down at 1/8: %v, %v", y, x)
	}
}

func testScaleOffset(t *testing.T, h Header, scale int) {
	sw, sh := h.At(scale)
	offY, offX := (Options{}).ScaleOffset(h, scale)
	if max(offY, offX) > 0 && scale == 1 || min(offY, offX) < 0 {
		t.Fatalf("%+v at 1/%d: %v, %v", h, scale, offY, offX)
	}
	for y := range h.Height {
		for x := range h.Width {
			ux, uy := upright(h.Orientation, h.Width, h.Height, x, y)
			wantX, wantY := upright(h.Orientation, sw, sh, x/scale, y/scale)
			gotX := (float64(ux)+.5)/float64(scale) + offX
			gotY := (float64(uy)+.5)/float64(scale) + offY
			if int(gotX) != wantX || int(gotY) != wantY {
				t.Fatalf("%+v at 1/%d: pixel %d,%d is at %v,%v and should be in %d,%d", h, scale, x, y, gotX, gotY, wantX, wantY)
			}
		}
	}
	// The stored image's first corner lies on both grids.
	corner := func(w, h int, o uint8) (x, y float64) {
		ux, uy := upright(o, w, h, 0, 0)
		height, width := (Header{Width: w, Height: h, Orientation: o}).Size(false)
		return pickEdge(ux, width), pickEdge(uy, height)
	}
	x, y := corner(h.Width, h.Height, h.Orientation)
	if sw < 2 || sh < 2 {
		return // the first pixel is also the last
	}
	if wantX, wantY := corner(sw, sh, h.Orientation); x/float64(scale)+offX != wantX || y/float64(scale)+offY != wantY {
		t.Fatalf("%+v at 1/%d: the corner is not where it should be with %v, %v", h, scale, offY, offX)
	}
}

// pickEdge returns the image edge at its first or last pixel.
func pickEdge(pixel, side int) float64 {
	if pixel == 0 {
		return 0
	}
	return float64(side)
}
