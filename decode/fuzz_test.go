package decode

import (
	"bytes"
	"errors"
	"testing"
)

// Every target checks that, whatever the bytes, nothing crashes, nothing is written outside the
// rows, and the result is an error of a known kind or an image. It must be the same from both
// decoders where possible: JPEG rounds differently, and damaged WebP, which has no checksums,
// may mean different things to them.

func FuzzReadHeader(f *testing.F) {
	for _, s := range allSamples() {
		if len(s.data) < 1000 {
			f.Add(s.data)
		}
	}
	for _, r := range refusedHeaders() {
		f.Add(r.data)
	}
	for _, c := range pngEXIFs() {
		if len(c.data) < 1000 {
			f.Add(c.data)
		}
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		whole, wholeErr := ReadHeader(data, true)
		if wholeErr != nil {
			explained(t, "whole", wholeErr)
		} else if whole.Width < 1 || whole.Height < 1 || whole.Orientation < 1 || whole.Orientation > 8 || whole.Scratch < 0 {
			t.Errorf("header %+v", whole)
		}
		part, err := ReadHeader(data, false)
		switch {
		case errors.Is(err, ErrShort):
		case err != nil:
			explained(t, "part", err)
			if wholeErr == nil {
				t.Errorf("whole: %+v, part: %v", whole, err)
			}
		case wholeErr == nil && withTail(part, data) != whole:
			t.Errorf("whole: %+v, part: %+v", whole, part)
		}
	})
}

func FuzzJPEG(f *testing.F) { fuzzFormat(f, JPEG, false) }
func FuzzPNG(f *testing.F)  { fuzzFormat(f, PNG, true) }
func FuzzWebP(f *testing.F) { fuzzFormat(f, WebP, false) }
func FuzzBMP(f *testing.F)  { fuzzFormat(f, BMP, true) }
func FuzzPNM(f *testing.F)  { fuzzFormat(f, PNM, true) }

func fuzzFormat(f *testing.F, format Format, exact bool) {
	for _, s := range allSamples() {
		if s.format == format && len(s.data) < 3000 {
			f.Add(s.data, uint8(1))
		}
	}
	for orientation := 1; orientation <= 8; orientation++ {
		for _, s := range rotatable(16, 35, orientation, true) {
			if s.format == format {
				f.Add(s.data, uint8(2))
			}
		}
	}
	for _, d := range damagedFiles() {
		if Sniff(d.data) == format {
			f.Add(d.data, uint8(0))
		}
	}
	f.Fuzz(func(t *testing.T, data []byte, how uint8) {
		h, err := ReadHeader(data, true)
		if err != nil || h.Format != format || h.pixels() > 1<<14 {
			return
		}
		color := Color(how & 1)
		var first []byte
		for _, set := range codecSets() {
			if !set.has(format) {
				continue
			}
			d := set.decoder(t, Options{Color: color, IgnoreOrientation: how&2 != 0})
			pix, err := decodeTo(t, d, set.name, data, h)
			if err != nil {
				explained(t, set.name, err)
			} else if first == nil {
				first = pix
			} else if exact && !bytes.Equal(first, pix) && !hasCoefficients(data) {
				t.Errorf("%s makes other pixels", set.name)
			}
			fuzzRegion(t, d, data, h, how)
			d.Close()
		}
	})
}

// hasCoefficients reports whether data is a packed JPEG, whose pixels are those of a build's JPEG
// codec.
func hasCoefficients(data []byte) bool {
	p, err := readPacked(data, true)
	return err == nil && Sniff(data) == Packed && p.kind == kindCoefficients
}

func fuzzRegion(t *testing.T, d *Decoder, data []byte, h Header, how uint8) {
	scale := 1
	if h.Format == JPEG {
		scale = 1 << (how >> 2 & 3)
	}
	w, hh := h.At(scale)
	r := Region{X: w * int(how>>4&3) / 4, Y: hh * int(how>>6) / 4}
	r.W, r.H = w-r.X, hh-r.Y
	v := view{Region: r, Orientation: d.options.orientation(h)}
	height, width := v.size()
	c := newCanvas(width, height, d.options.Color.Channels())
	if err := d.DecodeRegion(c.Image, data, h, r, scale); err != nil {
		explained(t, "region", err)
	}
	c.pixels(t, "region")
}
