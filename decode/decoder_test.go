package decode

import (
	"errors"
	"math"
	"strings"
	"testing"
)

func TestDestinationIsChecked(t *testing.T) {
	data := corpus("plain-20x10.jpg").data
	h := headerOf(data)
	d := NewDecoder(Options{})
	defer d.Close()
	pix := make([]byte, 60*10)
	for name, dst := range map[string]Image{
		"no memory":        {nil, 60, 10, 20},
		"a byte too few":   {pix[:len(pix)-1], 60, 10, 20},
		"a short stride":   {pix, 59, 10, 20},
		"a long stride":    {pix, 61, 10, 20},
		"no stride":        {pix, 0, 10, 20},
		"negative stride":  {pix, -60, 10, 20},
		"huge stride":      {pix, math.MaxInt, 10, 20},
		"another size":     {pix, 60, 20, 10},
		"a row too many":   {pix, 60, 11, 20},
		"a column too few": {pix, 60, 10, 19},
	} {
		if err := d.Decode(dst, data, h); !errors.Is(err, ErrDestination) {
			t.Errorf("%s: %v", name, err)
		}
	}
	dst := Image{pix, 60, 10, 20}
	for _, r := range []Region{{-1, 0, 20, 10}, {0, -1, 20, 10}, {1, 0, 20, 10}, {0, 1, 20, 10}, {math.MaxInt, 0, 20, 10}, {0, 0, 0, 10}, {0, 0, 20, -1}} {
		if err := d.DecodeRegion(dst, data, h, r, 1); !errors.Is(err, ErrDestination) {
			t.Errorf("%+v: %v", r, err)
		}
	}
	for _, scale := range []int{0, -1, 3, 16} {
		if err := d.DecodeRegion(dst, data, h, Region{0, 0, 20, 10}, scale); !errors.Is(err, ErrDestination) {
			t.Errorf("at 1/%d: %v", scale, err)
		}
	}
	png := corpus("plain-20x10.png").data
	if err := d.DecodeRegion(Image{pix, 60, 5, 10}, png, headerOf(png), Region{0, 0, 10, 5}, 2); !errors.Is(err, ErrDestination) {
		t.Errorf("a PNG at 1/2: %v", err)
	}
	if err := d.Decode(dst, data, h); err != nil {
		t.Error(err)
	}
}

func TestHeaderMustMatch(t *testing.T) {
	for _, set := range codecSets() {
		d := set.decoder(t, Options{})
		for _, s := range rotatable(20, 10, 1, false) {
			if !set.has(s.format) {
				continue
			}
			others := rotatable(20, 10, 2, false)
			others = append(others, rotatable(10, 20, 1, false)...)
			others = append(others, rotatable(21, 10, 1, false)...)
			h := headerOf(s.data)
			for _, o := range others {
				if _, err := decodeTo(t, d, s.name, o.data, h); !errors.Is(err, ErrMismatch) {
					t.Errorf("%s with the header of a %s: %v", o.name, s.name, err)
				}
			}
			index := Header{Format: h.Format, Width: h.Width, Height: h.Height, Orientation: h.Orientation}
			if _, err := decodeTo(t, d, s.name, s.data, index); err != nil {
				t.Errorf("%s with a header from an index: %v", s.name, err)
			}
		}
	}
}

// TestCodecsCheckForThemselves: a codec writes nothing past the destination even if its data is
// another image than the view says.
func TestCodecsCheckForThemselves(t *testing.T) {
	all := samples(t)
	for _, set := range codecSets() {
		d := set.decoder(t, Options{})
		for i := range all {
			s := &all[i]
			h := headerOf(s.data)
			h.Width, h.Height = max(1, h.Width-1), max(1, h.Height/2)
			if h.Width == s.w && h.Height == s.h || !set.has(s.format) {
				continue
			}
			c := newCanvas(h.Width, h.Height, 3)
			v := view{Header: h, Region: Region{0, 0, h.Width, h.Height}, Scale: 1, Orientation: 1}
			if err := d.codecs[h.Format](&d.kept, c.Image, s.data, v); err == nil {
				t.Errorf("%s %s: no error", set.name, s.name)
			}
			c.pixels(t, s.name)
		}
	}
}

func TestMaxPixels(t *testing.T) {
	for _, s := range rotatable(20, 10, 6, false) {
		for limit, want := range map[int64]error{199: ErrTooLarge, 200: nil, 0: nil} {
			d := NewDecoder(Options{MaxPixels: limit})
			if _, err := decodeTo(t, d, s.name, s.data, headerOf(s.data)); !errors.Is(err, want) {
				t.Errorf("%s with at most %d pixels: %v", s.name, limit, err)
			}
			d.Close()
		}
	}
	// 2^28 pixels are the default limit, and nothing is allocated for more.
	ppm := []byte("P5 16385 16384 255 abc")
	h, err := ReadHeader(ppm, false)
	if err != nil {
		t.Fatal(err)
	}
	d := NewDecoder(Options{})
	defer d.Close()
	if err := d.Decode(Image{}, ppm, h); !errors.Is(err, ErrTooLarge) || !strings.Contains(err.Error(), "16385x16384") {
		t.Errorf("%v", err)
	}
}

func TestClosedDecoder(t *testing.T) {
	s := rotatable(20, 10, 1, false)[0]
	d := NewDecoder(Options{})
	if _, err := decodeTo(t, d, s.name, s.data, headerOf(s.data)); err != nil {
		t.Fatal(err)
	}
	d.Close()
	d.Close()
	d.Trim()
	if n := d.ScratchBytes(); n != 0 {
		t.Errorf("%d bytes held", n)
	}
	if _, err := decodeTo(t, d, s.name, s.data, headerOf(s.data)); err == nil {
		t.Error("a closed decoder decodes")
	}
}

// TestScratch: the memory held stays within the announced amount, and can be freed.
func TestScratch(t *testing.T) {
	for _, o := range []Options{{}, {Color: Gray}, {IgnoreOrientation: true}} {
		for orientation := 1; orientation <= 8; orientation++ {
			for _, s := range rotatable(61, 47, orientation, false) {
				d := NewDecoder(o)
				h := headerOf(s.data)
				if _, err := decodeTo(t, d, s.name, s.data, h); err != nil {
					t.Fatal(err)
				}
				if held, said := d.ScratchBytes(), scratch(h, o.Color, o.orientation(h)); held > said {
					t.Errorf("%s turned by %d with %+v: %d bytes held, %d announced", s.name, orientation, o, held, said)
				}
				d.Trim()
				if n := d.ScratchBytes(); n != 0 {
					t.Errorf("%s: %d bytes held after Trim", s.name, n)
				}
				if _, err := decodeTo(t, d, s.name, s.data, h); err != nil {
					t.Errorf("%s after Trim: %v", s.name, err)
				}
				d.Close()
			}
		}
	}
}

// TestNothingOnTheHeap: in the steady state the C decoders, and raw formats of the usual kinds,
// do not allocate on the Go heap.
func TestNothingOnTheHeap(t *testing.T) {
	if Version() == "" || strings.HasSuffix(Version(), " image") {
		t.Skip("this build has only Go's decoders")
	}
	var all []sample
	for orientation := 1; orientation <= 8; orientation++ {
		all = append(all, rotatable(37, 21, orientation, false)...)
	}
	all = append(all, allSamples()...)
	for _, o := range []Options{{}, {Color: Gray}} {
		d := NewDecoder(o)
		defer d.Close()
		for _, s := range all {
			h := headerOf(s.data)
			height, width := h.Size(false)
			dst := Image{make([]byte, width*height*3), width * 3, height, width}
			var err error
			if n := testing.AllocsPerRun(20, func() { err = d.Decode(dst, s.data, h) }); n != 0 || err != nil {
				t.Errorf("%s turned by %d with %+v: %v allocations, %v", s.name, s.orientation, o, n, err)
			}
		}
	}
}

func TestHeaderSize(t *testing.T) {
	for o := uint8(0); o < 12; o++ {
		h := Header{Width: 4, Height: 3, Orientation: o}
		height, width := h.Size(false)
		if turned := o >= 5 && o <= 8; turned != (height == 4) || height*width != 12 {
			t.Errorf("orientation %d: %dx%d", o, width, height)
		}
		if height, width := h.Size(true); height != 3 || width != 4 {
			t.Errorf("orientation %d, ignored: %dx%d", o, width, height)
		}
	}
	if w, h := (Header{Width: 17, Height: 16}).At(8); w != 3 || h != 2 {
		t.Errorf("17x16 at 1/8 is %dx%d", w, h)
	}
}

func TestGrayWeights(t *testing.T) {
	for v := range 256 {
		if g := gray601(uint8(v), uint8(v), uint8(v)); int(g) != v {
			t.Errorf("gray %d becomes %d", v, g)
		}
	}
	if gray601(255, 0, 0) != 76 || gray601(0, 255, 0) != 150 || gray601(0, 0, 255) != 29 {
		t.Error("the weights are not BT.601's")
	}
}
