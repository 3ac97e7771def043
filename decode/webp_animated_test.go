package decode

import (
	"fmt"
	"testing"
)

// TestFirstFrame: an animation decodes to its first frame, placed on the canvas, with black
// around it, where the canvas is transparent and alpha is dropped. Pillow, which uses libwebp's
// WebPAnimDecoder, converts to the same RGB. webpmux wrote the files, and Pillow the .ppm next
// to each.
func TestFirstFrame(t *testing.T) {
	for _, name := range []string{"animated-lossy", "animated-lossless"} {
		s := sample{name: name, data: testFile(t, name+".webp"), format: WebP}
		ppm := testFile(t, name+".ppm")
		h := headerOf(s.data)
		s.w, s.h, s.rgb = h.Width, h.Height, ppm[len(ppm)-3*30*20:]
		if s.w != 30 || s.h != 20 {
			t.Fatalf("%s: %+v", name, h)
		}
		for _, set := range codecSets() {
			if !set.has(WebP) {
				continue
			}
			for _, c := range []Color{RGB, Gray} {
				d := set.decoder(t, Options{Color: c})
				got, err := decodeTo(t, d, name, s.data, h)
				if err != nil {
					t.Fatalf("%s: %s: %v", set.name, name, err)
				}
				want, _, _ := s.want(c, 1)
				compare(t, fmt.Sprintf("%s: %s in %d channels", set.name, name, c.Channels()), got, want, 0, 0)
				testRegions(t, d, &s, h, 1, 100)
			}
		}
	}
}

// TestAnimationPrefixes: a prefix of an animation gives the same header as the whole file.
func TestAnimationPrefixes(t *testing.T) {
	data := testFile(t, "animated-lossy.webp")
	whole := headerOf(data)
	short := 0
	for n := range data {
		switch h, err := ReadHeader(data[:n:n], false); {
		case err == nil && h != whole:
			t.Errorf("its first %d bytes say %+v, all of them %+v", n, h, whole)
		case err != nil && err != ErrShort:
			t.Errorf("its first %d bytes: %v", n, err)
		case err != nil:
			short++
		}
		if _, err := ReadHeader(data[:n:n], true); err == nil {
			t.Errorf("cut to %d of %d bytes: no error", n, len(data))
		}
	}
	if short > 200 {
		t.Errorf("%d bytes are needed for the header of an image that starts before them", short)
	}
}
