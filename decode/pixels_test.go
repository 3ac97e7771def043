package decode_test

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	. "github.com/batchfs/batchfs/decode"
)

// eachSample calls f with every sample, for every kernel that can read it. small is for tests that
// decode a sample many times: they get no large ones. Kernels other than the first and
// libjpeg-turbo are then light, and get every fifth sample.
func eachSample(t *testing.T, small bool, f func(t *testing.T, k Kernel, s *sample, light bool)) {
	all := samples(t)
	for format := JPEG; format <= Packed; format++ {
		for i, k := range kernelsOf(format) {
			light := i > 0 && !(k == LibJPEG && format == JPEG)
			t.Run(format.String()+"/"+k.String(), func(t *testing.T) {
				n := 0
				for i := range all {
					s := &all[i]
					if s.format != format || k == Pure && s.goRefuses || small && s.w*s.h >= 20000 {
						continue
					}
					if n++; !small || !light || n%5 == 0 {
						f(t, k, s, light)
					}
				}
				if n == 0 {
					t.Fatal("no samples")
				}
			})
		}
	}
}

func (s sample) anyOrientation(n int) sample { return s.turnedBy(1+n%8, n/8%2 == 0, "") }

// TestPixels: every kernel makes the pixels of every file, in both colours, turned or not.
func TestPixels(t *testing.T) {
	first, n := map[string][]byte{}, 0
	eachSample(t, false, func(t *testing.T, k Kernel, s *sample, _ bool) {
		c := newCoders(t)
		n++
		for _, s := range []sample{*s, s.anyOrientation(n)} {
			h, err := ReadHeader(s.data, true)
			if err != nil || h.Format != s.format || h.Width != s.w || h.Height != s.h || h.Orientation != s.orientation {
				t.Errorf("%s: header %+v, %v, want orientation %d", s.name, h, err, s.orientation)
				return
			}
			if honest := strings.TrimPrefix(filepath.Ext(s.name), "."); slices.Contains([]string{"png", "webp", "bmp", "pnm"}, honest) && honest != h.Format.String() {
				t.Errorf("%s is taken for %s", s.name, h.Format)
			}
			checkPixels(t, c, k, &s, first)
		}
	})
}

func checkPixels(t *testing.T, c *coders, k Kernel, s *sample, first map[string][]byte) {
	for i := range 4 {
		o := Options{Kernel: k, Color: Color(i & 1), IgnoreOrientation: i&2 != 0}
		orientation := s.orientation
		if o.IgnoreOrientation {
			orientation = 1
		}
		want, w, hh := s.want(o.Color, orientation)
		if height, width := headerOf(s.data).Size(o.IgnoreOrientation); height != hh || width != w {
			t.Errorf("%s: size %dx%d, want %dx%d", s.name, width, height, w, hh)
		}
		name := fmt.Sprintf("%s turned by %d, %+v", s.name, orientation, o)
		got := c.with(o).pixels(t, whole(s.file))
		compare(t, name, got, want, s.worst, s.mean)
		// Pixels do not depend on the kernel, except that Go's may differ for JPEGs.
		o.Kernel = 0
		key := fmt.Sprint(s.name, s.orientation, o)
		if first[key] == nil {
			first[key] = got
		} else if !bytes.Equal(got, first[key]) && !(k == Pure && ofJPEG(s.data)) {
			t.Errorf("%s: other pixels than those of the first kernel", name)
		}
	}
}

// TestOrientation covers every format, orientation and place for EXIF, and regions anywhere.
func TestOrientation(t *testing.T) {
	c, random := newCoders(t), rand.New(rand.NewPCG(3, 4))
	for orientation := 1; orientation <= 8; orientation++ {
		for i, size := range [][2]int{{1, 1}, {37, 21}, {16, 35}, {3, 50}} {
			for _, s := range rotatable(size[0], size[1], orientation, i%2 == 0) {
				for _, k := range kernelsOf(s.format) {
					checkPixels(t, c, k, &s, map[string][]byte{})
					for _, o := range []Options{{Kernel: k}, {Kernel: k, Color: Gray}, {Kernel: k, IgnoreOrientation: true}} {
						checkRegions(t, random, c.with(o), &s, 6)
					}
				}
			}
		}
	}
}

// TestRegions: decoding a region equals decoding everything and cropping, to the last bit, in every
// format, at every scale, in both colours, turned or not.
func TestRegions(t *testing.T) {
	random, n := rand.New(rand.NewPCG(5, 6)), 0
	eachSample(t, true, func(t *testing.T, k Kernel, s *sample, light bool) {
		c, regions := newCoders(t), 6
		if light {
			regions = 1
		}
		for _, color := range []Color{RGB, Gray} {
			n++
			turned := s.anyOrientation(n)
			checkRegions(t, random, c.with(Options{Kernel: k, Color: color}), &turned, regions)
		}
	})
}

func checkRegions(t *testing.T, random *rand.Rand, d coder, s *sample, regions int) {
	t.Helper()
	a := whole(s.file)
	for scale := 1; scale == 1 || scale <= 8 && a.head.Reduces(); scale *= 2 {
		a = a.reduced(scale)
		all := d.pixels(t, a)
		height, width := Header{Width: a.region.W, Height: a.region.H, Orientation: s.orientation}.Size(d.o.IgnoreOrientation)
		for i := range regions {
			r := anyRegion(random, width, height)
			if i == 0 {
				r = Region{width / 2, height / 2, width - width/2, height - height/2} // includes the last corner
			}
			part := a
			part.region = d.o.StoredRegion(a.head, r, scale)
			compare(t, fmt.Sprint(part, s.orientation), d.pixels(t, part), cropped(all, width, d.o.Color.Channels(), r), 0, 0)
		}
	}
}

// TestJPEGRegionsExhaustively tests every left and top edge over more than two MCUs, where
// alignment matters, in every kind of JPEG whose regions libjpeg decodes in different ways. The
// pictures have edges everywhere, so that ignoring a neighbour is visible.
func TestJPEGRegionsExhaustively(t *testing.T) {
	c := newCoders(t)
	for _, k := range kernelsOf(JPEG) {
		if k == Pure {
			continue // Go decodes everything and crops
		}
		d := c.with(Options{Kernel: k})
		for _, name := range testFiles("regions/*.jpg") {
			for scale := 1; scale <= 8; scale *= 2 {
				a := whole(file{name, testFile(name)}).reduced(scale)
				w, h, all := a.region.W, a.region.H, d.pixels(t, a)
				for at := range min(w, h) {
					for i, n := range []int{1, 2, 7, 40} {
						if testing.Short() && i%2 != at%2 {
							continue
						}
						a.region = Region{X: at, Y: at, W: min(n, w-at), H: min(n, h-at)}
						if compare(t, a.String(), d.pixels(t, a), cropped(all, w, 3, a.region), 0, 0); t.Failed() {
							return
						}
					}
				}
			}
		}
	}
}

// lengths returns the lengths to cut a file of n bytes to: all for a small file; for a larger
// one those near its ends, and some between.
func lengths(n int, light bool) (out []int) {
	all, ends, between := 300, 80, 40
	if testing.Short() {
		all, ends, between = 60, 30, 15
	}
	if light {
		all, ends, between = 0, 3, 3
	}
	for i := range n {
		if n <= all || i < ends || n-i <= ends || i%(n/between+1) == 0 {
			out = append(out, i)
		}
	}
	return out
}

// TestTruncated: data that ends early is an error wherever it ends, even if only the first row is
// wanted, and has no effect on the next image.
func TestTruncated(t *testing.T) {
	eachSample(t, true, func(t *testing.T, k Kernel, s *sample, light bool) {
		d := newCoder(t, Options{Kernel: k})
		a := whole(s.file)
		want, row := d.decode(t, a), a
		row.region.H = 1
		wantRow := d.decode(t, row)
		for _, n := range lengths(len(s.data)-s.loose, light) {
			a.data = s.data[:n:n]
			err := d.decode(t, a).err
			if err == nil {
				t.Errorf("%s cut to %d of %d: no error", s.name, n, len(s.data))
				break
			}
			explained(t, s.name, err)
		}
		for _, n := range []int{len(s.data) - 1, len(s.data) - 2, len(s.data) * 3 / 4} {
			row.data = s.data[:n]
			if err := d.decode(t, row).err; s.h >= 4 && s.loose == 0 && !errors.Is(err, ErrCorrupt) {
				t.Errorf("%s: the first row of %d of %d bytes: %v", s.name, n, len(s.data), err)
			}
		}
		a.data, row.data = s.data, s.data
		if !d.decode(t, a).same(want) || !d.decode(t, row).same(wantRow) {
			t.Errorf("%s: other pixels after damaged ones", s.name)
		}
	})
}

// TestEverywhere: for any request and any file, sound or not, all kernels give the same result,
// which is an image or an error with a reason.
func TestEverywhere(t *testing.T) {
	c, random, tried, ours := newCoders(t), rand.New(rand.NewPCG(1, 2)), 0, 0
	files := jpegFiles()
	for _, s := range append(noisySamples(t), samples(t)...) {
		files = append(files, s.file)
	}
	for i, f := range files {
		jpeg := Sniff(f.data) == JPEG
		rounds := 12
		if jpeg && !testing.Short() {
			rounds = 160
		}
		for n := range rounds {
			a := whole(f)
			if n%4 == 3 { // with this header, which is another file's, or that of the damaged file
				if a.data = flipped(random, f.data); n%8 == 7 {
					a = whole(file{f.name + ", damaged", a.data})
				}
			}
			if a.head.Width == 0 || pixelsOf(a.head) > 1<<16 {
				continue
			}
			if n > 1 {
				a = a.any(random)
			}
			if jpeg {
				a.rule = [...]EntryRule{EntryRows, EntryOff, 1, 2, 3, 5, 7, 9}[n/2%8]
			}
			o := Options{Color: Color(n & 1), MaxPixels: 1 << 20, IgnoreOrientation: n%5 == 0}
			_, n := c.everywhere(a, o)
			ours += n
			if jpeg {
				tried += len(kernelsOf(JPEG)) - 2 // without libjpeg-turbo and Go
			}
		}
		if t.Failed() && i%50 == 0 {
			return
		}
	}
	if t.Logf("our own decoder decoded %d of %d JPEGs", ours, tried); native && (ours < tried/3 || ours == tried) {
		t.Error("it accepted too few, or all")
	}
}

// TestNothingOfOneImageInTheNext decodes every ordered pair of odd files on one decoder. The
// result for the second must be the same as on a new decoder.
func TestNothingOfOneImageInTheNext(t *testing.T) {
	needsC(t) // Go's decoders keep nothing
	for _, k := range kernelsOf(JPEG)[:len(Kernels())] {
		var asks []ask
		var alone []answer
		good := 0
		for _, f := range oddFiles() {
			if h, err := ReadHeader(f.data, true); err == nil {
				a := whole(f)
				d := newCoder(t, Options{Kernel: k})
				asks, alone = append(asks, a), append(alone, d.decode(t, a))
				d.Close()
				if good++; alone[len(alone)-1].err != nil || h.Width == 0 {
					good--
				}
			}
		}
		if good < 10 || good > len(asks)-10 {
			t.Fatalf("%s: %d of %d files are good: the set is not odd", k, good, len(asks))
		}
		d := newCoder(t, Options{Kernel: k})
		for _, first := range asks {
			if first.head.Reduces() {
				first = first.reduced(2)
			}
			for i, second := range asks {
				d.decode(t, first)
				if x := d.decode(t, second); !x.same(alone[i]) {
					t.Errorf("%s: %q after %q: %s, want %s, or other pixels", k, second.name, first.name, x, alone[i])
				}
			}
		}
	}
}

// ownTables are files that differ in their Huffman tables, and therefore in their pixels.
func ownTables() (out []file) {
	data := corpus("ycc-4x1-16x16.jpg").data
	for _, size := range []byte{2, 4, 5} {
		for run := byte(2); run <= 5; run++ {
			out = append(out, file{fmt.Sprintf("run %d of size %d", run, size), swapped(data, size, run<<4|size)})
		}
	}
	return out
}

// TestDecodersInParallel: nothing of one decoder's images reaches another's, even if they share
// Huffman tables and release them at the same time.
func TestDecodersInParallel(t *testing.T) {
	var asks []ask
	var want []answer
	pixels := map[string]bool{}
	turbo := newCoder(t, Options{Kernel: LibJPEG})
	tables := ownTables()
	for i, f := range append(tables, filesOf(allSamples())...) {
		asks = append(asks, whole(f))
		want = append(want, turbo.decode(t, asks[i]))
		if i < len(tables) {
			pixels[string(want[i].pix)] = true
		}
	}
	if len(pixels) != len(tables) {
		t.Fatalf("%d files have %d different contents", len(tables), len(pixels))
	}
	var workers sync.WaitGroup
	for w := range 4 {
		workers.Go(func() {
			d := coder{NewDecoder(Options{}), Options{}}
			defer d.Close()
			random := rand.New(rand.NewPCG(7, uint64(w)))
			for n := range len(asks) + 500 {
				i := (n + w*37) % len(asks)
				if n < 500 {
					i = random.IntN(len(tables) >> (n / 64 % 3)) // all, or so few that they are found again
				}
				if got := d.decode(t, asks[i]); !got.same(want[i]) {
					t.Errorf("%s: %s, or other pixels", asks[i], got)
					return
				}
				if n%100 == 99 {
					d.Trim()
				}
			}
		})
	}
	workers.Wait()
}

func filesOf(all []sample) (out []file) {
	for _, s := range all {
		out = append(out, s.file)
	}
	return out
}

// TestNothingOnTheHeap: in the steady state the C decoders, and raw formats of the usual kinds,
// do not allocate on the Go heap; nor does any header.
func TestNothingOnTheHeap(t *testing.T) {
	all := filesOf(samples(t))
	for orientation := 1; orientation <= 8; orientation++ {
		all = append(all, filesOf(rotatable(37, 21, orientation, false))...)
	}
	by := [2]*Decoder{NewDecoder(Options{Kernel: Portable}), NewDecoder(Options{Kernel: Portable})}
	defer by[0].Close()
	defer by[1].Close()
	for _, o := range []Options{{}, {Color: Gray}} {
		d := newCoder(t, o)
		for _, f := range all {
			if n := testing.AllocsPerRun(4, func() { ReadHeader(f.data, true) }); n != 0 {
				t.Errorf("%s: %v allocations for its header", f.name, n)
			}
			if !native {
				continue
			}
			_, task := d.task(whole(f))
			var err error
			if n := testing.AllocsPerRun(4, func() { err = d.DecodeTask(task) }); n != 0 || err != nil {
				t.Errorf("%s with %+v: %v allocations, %v", f.name, o, n, err)
			}
			if o.Color == RGB && Sniff(f.data) == JPEG {
				tasks := [2]Task{task, task}
				if n := testing.AllocsPerRun(4, func() { DecodePair(&by, &tasks) }); n != 0 {
					t.Errorf("a pair of %s: %v allocations", f.name, n)
				}
			}
		}
	}
}
