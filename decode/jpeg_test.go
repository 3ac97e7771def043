package decode_test

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os/exec"
	"slices"
	"strings"
	"testing"

	. "github.com/batchfs/batchfs/decode"
)

// djpeg decodes with libjpeg-turbo's program; false if it is not installed.
func djpeg(t testing.TB, data []byte, args ...string) (pix []byte, ok bool) {
	t.Helper()
	path, err := exec.LookPath("djpeg")
	if err != nil {
		t.Log("NOT TESTED against djpeg, which is not installed (libjpeg-turbo-progs)")
		return nil, false
	}
	run := exec.Command(path, append(args, "-pnm")...)
	run.Stdin = bytes.NewReader(data)
	out, err := run.Output()
	if err != nil {
		t.Fatalf("djpeg: %v", err)
	}
	_, _, pix = pixmap(out, 3)
	return pix, true
}

// TestIncompleteProgressive: if scans are missing, blocks are smoothed as in djpeg, including in
// regions, scaled and turned.
func TestIncompleteProgressive(t *testing.T) {
	needsC(t)
	c, random := newCoders(t), rand.New(rand.NewPCG(1, 2))
	for n := 1; n <= 10; n++ {
		s := sample{file: file{fmt.Sprintf("%d scans", n), scansUpTo(testFile("progressive.jpg"), n)}, format: JPEG, orientation: 1}
		for scale := 1; scale <= 8; scale *= 2 {
			if want, ok := djpeg(t, s.data, "-scale", fmt.Sprintf("1/%d", scale)); ok {
				compare(t, fmt.Sprintf("%s at 1/%d", s.name, scale), c.with(Options{}).pixels(t, whole(s.file).reduced(scale)), want, 0, 0)
			}
		}
		for _, color := range []Color{RGB, Gray} {
			s := s.anyOrientation(n)
			checkRegions(t, random, c.with(Options{Color: color}), &s, 12)
		}
	}
	// The first scan alone would give every block a uniform colour.
	first := whole(file{"first", scansUpTo(testFile("progressive.jpg"), 1)})
	first.region = Region{16, 16, 8, 8}
	if gray := c.with(Options{Color: Gray}).pixels(t, first); bytes.Count(gray, gray[:1]) == len(gray) {
		t.Error("a block of which only the mean is known is flat: it was not smoothed")
	}
}

// TestArithmetic relies on jpegtran's -arithmetic not changing any coefficient.
func TestArithmetic(t *testing.T) {
	c, random := newCoders(t), rand.New(rand.NewPCG(1, 2))
	for _, name := range []string{"arithmetic.jpg", "arithmetic-progressive.jpg"} {
		s := sample{file: file{name, testFile(name)}, format: JPEG, orientation: 1}
		for _, k := range kernelsOf(JPEG) {
			d, a := c.with(Options{Kernel: k}), whole(s.file)
			got := d.decode(t, a)
			if k == Pure || errors.Is(got.err, ErrFormat) { // libjpeg-turbo can be built without it
				if !errors.Is(got.err, ErrFormat) {
					t.Errorf("%s: %s: %v, want that it is not supported", k, name, got.err)
				}
				continue
			}
			compare(t, name, got.pix, d.pixels(t, whole(file{"huffman", testFile("huffman.jpg")})), 0, 0)
			checkRegions(t, random, d, &s, 12)
			for n := range s.data {
				if a.data = s.data[:n:n]; d.decode(t, a).err == nil {
					t.Errorf("%s cut to %d of %d: no error", name, n, len(s.data))
				}
			}
		}
	}
}

// TestInk: the product of ink and black is rounded as it was for the reference.
func TestInk(t *testing.T) {
	needsC(t)
	d := newCoder(t, Options{})
	for _, name := range []string{"cmyk.jpg", "cmyk-plain.jpg", "ycck.jpg"} {
		s := corpus(name)
		compare(t, name, d.pixels(t, whole(s.file)), s.rgb, 1, 0.05)
	}
}

// TestMotionJPEG: a file without Huffman tables uses the standard ones, as in libjpeg-turbo.
func TestMotionJPEG(t *testing.T) {
	needsC(t)
	data := testFile("huffman.jpg")
	d := newCoder(t, Options{})
	compare(t, "without tables", d.pixels(t, whole(file{"frame", without(data, markDHT)})), d.pixels(t, whole(file{"whole", data})), 0, 0)
}

// TestFewerScansOfLargeImages: the cost of scans is limited, not only their number.
func TestFewerScansOfLargeImages(t *testing.T) {
	for _, c := range []struct{ side, most int }{{8, 500}, {4096, 500}, {16384, 64}} {
		head := bareJPEG(c.side, c.side, 1, 1, true, 0)
		first := append(slices.Clone(zeroScan(0, 0, 0)[:10]), make([]byte, c.side/8*c.side/64+1)...)
		for _, scans := range []int{c.most, c.most + 1} {
			data := slices.Concat(head, first, bytes.Repeat(zeroScan(1, 1, 0), scans-1))
			a := whole(file{"many scans", data})
			a.region = Region{W: 1, H: 1}
			err := newCoder(t, Options{}).decode(t, a).err // the end is missing, too
			if tooMany := strings.Contains(fmt.Sprint(err), fmt.Sprintf("more than %d scans", c.most)); !errors.Is(err, ErrCorrupt) || tooMany != (scans > c.most) {
				t.Errorf("%d scans of %d pixels a side: %v", scans, c.side, err)
			}
		}
	}
}

// TestJPEGScale compares scaled images with the mean of the pixels that they replace. Scaled
// inverse transforms drop high frequencies instead of averaging, which for a smooth picture is
// the same within a few levels.
func TestJPEGScale(t *testing.T) {
	c := newCoders(t)
	for _, name := range []string{"ycc-1x1-50x39.jpg", "ycc-2x2-50x39.jpg"} {
		s := corpus(name)
		for scale := 1; scale <= 8; scale *= 2 {
			a := whole(s.file).reduced(scale)
			want := paint(a.region.W, a.region.H, func(x, y int) (p [3]uint8) {
				var sum [3]int
				n := 0
				for sy := y * scale; sy < min((y+1)*scale, s.h); sy++ {
					for sx := x * scale; sx < min((x+1)*scale, s.w); sx++ {
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
			for _, k := range kernelsOf(JPEG) {
				compare(t, fmt.Sprint(k, a), c.with(Options{Kernel: k}).pixels(t, a), want, 14, 2.5)
			}
		}
	}
}

// TestRegionAboveFilledEnd: fill bytes may precede any marker, including an end marker that is
// only searched for.
func TestRegionAboveFilledEnd(t *testing.T) {
	plain := corpus("plain-61x47.jpg").data
	d := newCoder(t, Options{})
	for fill := range 4 {
		data := append(bytes.Clone(plain[:len(plain)-2]), bytes.Repeat([]byte{0xff}, fill)...)
		a := whole(file{fmt.Sprintf("%d bytes before the end", fill), append(data, 0xff, markEOI)})
		a.region.H = 1
		d.pixels(t, a)
		if a.data = a.data[:len(a.data)-1]; !errors.Is(d.decode(t, a).err, ErrCorrupt) {
			t.Errorf("%s, of which half is missing: taken", a)
		}
	}
}

// TestBaselineDamaged: if our own decoder accepts a damaged file, libjpeg-turbo decodes it to the
// same pixels without objection, wherever a file is cut and whichever of its bits is inverted.
func TestBaselineDamaged(t *testing.T) {
	files := []string{
		"samples/ycc-2x2-17x33", "progressive/usual-1x2", "samples/ycc-1x1-16x16", "samples/ycc-1x2-7x9", "samples/gray", "samples/restarts",
		"progressive/deep-gray-restarts", "progressive/alone-2x1", "progressive/bands-1x1",
		"progressive/plain-restarts", "progressive/deep-tiny", "progressive/usual-flat", "progressive/deep-dense",
	}
	step := 1
	if testing.Short() {
		files, step = files[:2], 3
	}
	c, random := newCoders(t), rand.New(rand.NewPCG(3, 4))
	for _, name := range files {
		data := testFile(name + ".jpg")
		try := func(what string, data []byte) {
			a := whole(file{name + " " + what, data})
			if a.head.Width == 0 || a.head.Format != JPEG || pixelsOf(a.head) > 1<<12 {
				return
			}
			scaled := a.reduced(2 << random.IntN(3))
			if a.rule = EntryRows; random.IntN(3) == 0 {
				a = a.some(random)
			}
			c.everywhere(a, Options{})
			c.everywhere(scaled, Options{})
		}
		for n := range data {
			try(fmt.Sprintf("cut at %d", n), data[:n])
			for bit := n % step; bit < 8; bit += step {
				damaged := bytes.Clone(data)
				damaged[n] ^= 1 << bit
				try(fmt.Sprintf("with bit %d of byte %d inverted", bit, n), damaged)
			}
			if t.Failed() {
				return
			}
		}
	}
}

// TestBaselineAlone: kernels agree on the pixels of images that are not left to libjpeg-turbo.
// libjpeg-turbo never runs in this test: to the memory sanitizer, everything that it writes would
// seem uninitialized. Images that can be packed are never left to it.
func TestBaselineAlone(t *testing.T) {
	needsC(t)
	random, tried := rand.New(rand.NewPCG(1, 2)), 0
	var all []coder
	for _, k := range Kernels()[1:] {
		all = append(all, newCoder(t, Options{Kernel: k}), newCoder(t, Options{Kernel: k}))
	}
	for _, f := range jpegFiles() {
		for n := range 40 {
			a := whole(f)
			if n > 10 {
				a = whole(file{f.name + ", damaged", flipped(random, f.data)})
			}
			if a.head.Format != JPEG {
				continue
			}
			if _, err := all[0].Pack(a.data, a.head, ForMemory); err != nil {
				continue
			}
			a = a.any(random)
			tried++
			want := all[0].decode(t, a)
			for i := range all {
				if got := all[i].decode(t, a); !got.same(want) || got.jpegs.Baseline != 1 {
					t.Errorf("%s: %s: %s, not %s, or other pixels", all[i].o.Kernel, a, got, want)
				}
			}
			samePair(t, [2]coder{all[2*(n%(len(all)/2))], all[2*(n%(len(all)/2))+1]}, [2]ask{a, a})
		}
	}
	if tried < 2000 {
		t.Errorf("only %d were decoded", tried)
	}
}
