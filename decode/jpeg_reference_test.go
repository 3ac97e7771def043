package decode

import (
	"bytes"
	"errors"
	"fmt"
	"os/exec"
	"testing"
)

// djpeg decodes with libjpeg-turbo's program; false if it is not installed.
func djpeg(t testing.TB, data []byte, args ...string) (sample, bool) {
	t.Helper()
	path, err := exec.LookPath("djpeg")
	if err != nil {
		t.Log("NOT TESTED against djpeg, which is not installed (libjpeg-turbo-progs)")
		return sample{}, false
	}
	run := exec.Command(path, append(args, "-pnm")...)
	run.Stdin = bytes.NewReader(data)
	out, err := run.Output()
	if err != nil {
		t.Fatalf("djpeg: %v", err)
	}
	h, err := ReadHeader(out, true)
	if err != nil {
		t.Fatal(err)
	}
	return sample{w: h.Width, h: h.Height, rgb: out[len(out)-3*h.Width*h.Height:]}, true
}

// nativeSet returns this build's own codecs if they are in C.
func nativeSet(t testing.TB) codecSet {
	t.Helper()
	set := codecSets()[0]
	if set.goes {
		t.Skip("this build has only Go's decoders")
	}
	return set
}

// TestIncompleteProgressive: where scans are missing, blocks are smoothed as in djpeg, including
// in regions, scaled and turned.
func TestIncompleteProgressive(t *testing.T) {
	set := nativeSet(t)
	whole := testFile(t, "progressive.jpg")
	for n := 1; n <= 10; n++ {
		s := sample{name: fmt.Sprintf("%d scans", n), data: scansUpTo(whole, n), format: JPEG}
		h := headerOf(s.data)
		for _, scale := range []int{1, 2, 4, 8} {
			w, hh := h.At(scale)
			got := decodeRegion(t, set.decoder(t, Options{}), s.data, h, Region{0, 0, w, hh}, scale)
			if want, ok := djpeg(t, s.data, "-scale", fmt.Sprintf("1/%d", scale)); ok {
				compare(t, fmt.Sprintf("%s at 1/%d", s.name, scale), got, want.rgb, 0, 0)
			}
			for _, c := range []Color{RGB, Gray} {
				testRegions(t, set.decoder(t, Options{Color: c}), &s, h, scale, 12)
			}
		}
	}
	// The first scan alone would give every block a uniform colour.
	first := scansUpTo(whole, 1)
	gray := decodeRegion(t, set.decoder(t, Options{Color: Gray}), first, headerOf(first), Region{16, 16, 8, 8}, 1)
	if bytes.Count(gray, gray[:1]) == len(gray) {
		t.Error("a block of which only the mean is known is flat: it was not smoothed")
	}
}

// TestArithmetic relies on jpegtran's -arithmetic not changing any coefficient.
func TestArithmetic(t *testing.T) {
	want := testFile(t, "huffman.jpg")
	for _, name := range []string{"arithmetic.jpg", "arithmetic-progressive.jpg"} {
		s := sample{name: name, data: testFile(t, name), format: JPEG}
		h, err := ReadHeader(s.data, true)
		if err != nil || h.Width != 61 || h.Height != 47 {
			t.Fatalf("%s: %+v, %v", name, h, err)
		}
		for _, set := range codecSets() {
			if !set.has(JPEG) {
				continue
			}
			d := set.decoder(t, Options{})
			got, err := decodeTo(t, d, name, s.data, h)
			if set.goes || errors.Is(err, ErrFormat) { // libjpeg-turbo can be built without it
				if !errors.Is(err, ErrFormat) {
					t.Errorf("%s: %s: %v, want that it is not supported", set.name, name, err)
				}
				continue
			}
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			huffman, err := decodeTo(t, d, name, want, headerOf(want))
			if err != nil {
				t.Fatal(err)
			}
			compare(t, name, got, huffman, 0, 0)
			for _, scale := range []int{1, 2, 4, 8} {
				testRegions(t, d, &s, h, scale, 12)
			}
			for n := range s.data {
				if _, err := decodeTo(t, d, name, s.data[:n:n], h); err == nil {
					t.Errorf("%s cut to %d of %d: no error", name, n, len(s.data))
				}
			}
		}
	}
}

// TestInk: the product of ink and black is rounded as it was for the reference.
func TestInk(t *testing.T) {
	set := nativeSet(t)
	for _, name := range []string{"cmyk.jpg", "cmyk-plain.jpg", "ycck.jpg"} {
		s := corpus(name)
		got, err := decodeTo(t, set.decoder(t, Options{}), name, s.data, headerOf(s.data))
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		compare(t, name, got, s.rgb, 1, 0.05)
	}
}

// TestFewerScansOfLargeImages: the cost of scans is limited, not only their number.
func TestFewerScansOfLargeImages(t *testing.T) {
	scan := []byte{0xff, markSOS, 0, 8, 1, 1, 0, 1, 1, 0, 0}
	for _, c := range []struct {
		side, most int
	}{{8, maxScans}, {4096, maxScans}, {16384, fewScans}, {1 << 15, fewScans}} {
		h := Header{Format: JPEG, Width: c.side, Height: c.side, scan: len(scan)}
		if err := checkScans(bytes.Repeat(scan, c.most), h); err != nil {
			t.Errorf("%d scans of %d pixels a side: %v", c.most, c.side, err)
		}
		if err := checkScans(bytes.Repeat(scan, c.most+1), h); !errors.Is(err, ErrCorrupt) {
			t.Errorf("%d scans of %d pixels a side: %v", c.most+1, c.side, err)
		}
	}
}
