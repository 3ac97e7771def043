//go:build cgo

package decode

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
)

// baselineFiles are JPEGs of all kinds, most of which the baseline decoder reads.
func baselineFiles(t testing.TB) []oddFile {
	out := oddFiles(t)
	for _, s := range allSamples() {
		if s.format == JPEG {
			out = append(out, oddFile{s.name, s.data})
		}
	}
	for _, pattern := range []string{"regions/*.jpg", "oriented/*.jpg", "refused/*.jpg", "progressive/*.jpg"} {
		names, err := filepath.Glob(filepath.Join("testdata", pattern))
		if err != nil || names == nil {
			t.Fatalf("%s: %v", pattern, err)
		}
		for _, name := range names {
			data, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			out = append(out, oddFile{name, data})
		}
	}
	return out
}

// kernelSet has decoders for each colour: the first makes the pixels that those of all kernels must
// make.
type kernelSet [2][]*Decoder

// newKernelSet is the one that compares with libjpeg-turbo.
func newKernelSet(t testing.TB) (all kernelSet) {
	for c := range all {
		for _, k := range Kernels() {
			d := NewDecoder(Options{Color: Color(c), Kernel: k})
			t.Cleanup(d.Close)
			all[c] = append(all[c], d)
		}
	}
	return all
}

var errLeft = errors.New("left to libjpeg-turbo")

// newAloneSet compares the kernels with the portable one, and never calls libjpeg-turbo.
func newAloneSet(t testing.TB) kernelSet {
	all := newKernelSet(t)
	for _, of := range all {
		of[0].kept.kernel = Portable
		for _, d := range of {
			d.codecs[JPEG] = func(k *kept, dst Image, data []byte, v view) error {
				left, err := k.baseline(dst, data, v)
				if left {
					return errLeft
				}
				return err
			}
		}
	}
	return all
}

func (all kernelSet) taken() (n JPEGs) {
	for _, of := range all {
		for _, d := range of {
			n = n.Plus(d.TakeJPEGs())
		}
	}
	return n
}

// same checks that all kernels give the same pixels of a region, or the same error: while they
// make entry points, and with those that were made.
func (all kernelSet) same(t testing.TB, name string, data []byte, h Header, c Color, r Region) {
	t.Helper()
	all.sameAt(t, name, data, h, c, r, 1)
}

// sameAt is same for a region of the image at 1/scale.
func (all kernelSet) sameAt(t testing.TB, name string, data []byte, h Header, c Color, r Region, scale int) {
	v := view{Region: r, Orientation: all[c][0].options.orientation(h)}
	height, width := v.size()
	decode := func(d *Decoder) ([]byte, error) {
		to := newCanvas(width, height, c.Channels())
		err := d.DecodeRegion(to.Image, data, h, r, scale)
		return to.pixels(t, name), err
	}
	want, wantErr := decode(all[c][0])
	rule := EntryRows
	if r.X%2 == 1 {
		rule = EntryRule(r.Y%9 + 1)
	}
	for _, d := range all[c][1:] {
		var at []EntryPoint
		for _, what := range []string{"making", "using"} {
			d.SetEntryPoints(rule, at)
			got, err := decode(d)
			made, result := d.TakeEntryPoints()
			switch {
			case fmt.Sprint(err) != fmt.Sprint(wantErr):
				t.Errorf("%s, %+v: %s, %s entry points (%d), says %v, not %v", name, r, d.options.Kernel, what, rule, err, wantErr)
			case err == nil && !bytes.Equal(got, want):
				t.Errorf("%s, %+v: %s, %s entry points (%d), makes other pixels", name, r, d.options.Kernel, what, rule)
			case at != nil && result != EntriesUsed:
				t.Errorf("%s, %+v: %s: the entry points (%d) that were made were not used: %d", name, r, d.options.Kernel, rule, result)
			}
			if result != EntriesMade {
				break
			}
			at = slices.Clone(made)
		}
	}
}

func anyRegion(r *rand.Rand, h Header) Region {
	x, y := r.IntN(h.Width), r.IntN(h.Height)
	return Region{X: x, Y: y, W: 1 + r.IntN(h.Width-x), H: 1 + r.IntN(h.Height-y)}
}

// sameRegions compares whole files and as many random regions of each, in each kernel.
func (all kernelSet) sameRegions(t *testing.T, each int) {
	random, tried := rand.New(rand.NewPCG(1, 2)), 0
	for _, f := range baselineFiles(t) {
		h, err := ReadHeader(f.data, true)
		if err != nil || h.Format != JPEG {
			continue
		}
		whole := Region{0, 0, h.Width, h.Height}
		all.same(t, f.name, f.data, h, RGB, whole)
		all.same(t, f.name, f.data, h, Gray, whole)
		for range each {
			all.same(t, f.name, f.data, h, Color(random.IntN(2)), anyRegion(random, h))
		}
		for _, scale := range []int{2, 4, 8} {
			small := h
			small.Width, small.Height = h.At(scale)
			name := fmt.Sprintf("%s at 1/%d", f.name, scale)
			for _, c := range []Color{RGB, Gray} {
				all.sameAt(t, name, f.data, h, c, Region{0, 0, small.Width, small.Height}, scale)
			}
			for range each / 3 {
				all.sameAt(t, name, f.data, h, Color(random.IntN(2)), anyRegion(random, small), scale)
			}
		}
		tried += each + 2
	}
	n := all.taken()
	t.Logf("%d regions; decoded by a kernel, or left: %+v", tried, n)
	if n.Baseline < n.All()/3 || n.Baseline == n.All() {
		t.Error("the baseline decoder accepted too few, or all")
	}
}

// sameDamaged compares copies of a file that are cut at any place, or have any bit inverted.
func (all kernelSet) sameDamaged(t *testing.T, name string) {
	data := testFile(t, name+".jpg")
	random := rand.New(rand.NewPCG(3, 4))
	try := func(what string, data []byte) {
		h, err := ReadHeader(data, true)
		if err != nil || h.Format != JPEG || h.pixels() > 1<<12 {
			return
		}
		r := Region{0, 0, h.Width, h.Height}
		if random.IntN(3) == 0 {
			r = anyRegion(random, h)
		}
		all.same(t, name+" "+what, data, h, RGB, r)
		scale := 2 << random.IntN(3)
		r.W, r.H = h.At(scale)
		all.sameAt(t, fmt.Sprintf("%s %s at 1/%d", name, what, scale), data, h, RGB, Region{0, 0, r.W, r.H}, scale)
	}
	for n := range data {
		try(fmt.Sprintf("cut at %d", n), data[:n])
		for bit := range 8 {
			damaged := bytes.Clone(data)
			damaged[n] ^= 1 << bit
			try(fmt.Sprintf("with bit %d of byte %d inverted", bit, n), damaged)
		}
		if t.Failed() {
			return
		}
	}
	t.Logf("%s: %+v", name, all.taken())
}

// TestBaselineRegions: every kernel makes libjpeg-turbo's pixels of every region.
func TestBaselineRegions(t *testing.T) {
	each := 150
	if testing.Short() {
		each = 6
	}
	newKernelSet(t).sameRegions(t, each)
}

// TestBaselineDamaged: what the baseline decoder accepts of damaged files is what libjpeg-turbo
// decodes without objection to the same pixels, wherever a file is cut and whichever of its bits
// is inverted.
func TestBaselineDamaged(t *testing.T) {
	files := []string{
		"samples/ycc-2x2-17x33", "samples/ycc-1x1-16x16", "samples/ycc-1x2-7x9", "samples/gray", "samples/restarts",
		"progressive/usual-1x2", "progressive/deep-gray-restarts", "progressive/alone-2x1", "progressive/bands-1x1",
		"progressive/plain-restarts", "progressive/deep-tiny", "progressive/usual-flat", "progressive/deep-dense",
	}
	if testing.Short() {
		files = []string{files[0], files[5]}
	}
	all := newKernelSet(t)
	for _, name := range files {
		all.sameDamaged(t, name)
	}
}

// TestBaselineAlone: kernels agree on which images they leave to libjpeg-turbo, and on the pixels
// of the others. libjpeg-turbo never runs: to the sanitizer of uninitialized memory, all that it
// writes would seem uninitialized.
func TestBaselineAlone(t *testing.T) {
	all := newAloneSet(t)
	all.sameRegions(t, 20)
	for _, name := range []string{"samples/ycc-2x2-17x33", "samples/restarts"} {
		all.sameDamaged(t, name)
	}
}

// ownTables are files that differ in their Huffman tables, and therefore in their pixels.
func ownTables() (out []oddFile) {
	data := corpus("ycc-4x1-16x16.jpg").data
	for _, size := range []byte{2, 4, 5} {
		for run := byte(2); run <= 5; run++ {
			out = append(out, oddFile{fmt.Sprintf("run %d of size %d", run, size), swapped(data, size, run<<4|size)})
		}
	}
	return out
}

// TestBaselineTables: decoders that share Huffman tables and let go of them, at the same time,
// use the right ones, and hold no more than announced.
func TestBaselineTables(t *testing.T) {
	files, pixels := ownTables(), map[string]bool{}
	turbo := NewDecoder(Options{Kernel: LibJPEG})
	defer turbo.Close()
	var want [][]byte
	for _, f := range files {
		pix, err := decodeTo(t, turbo, f.name, f.data, headerOf(f.data))
		if err != nil {
			t.Fatal(err)
		}
		want, pixels[string(pix)] = append(want, pix), true
	}
	if len(pixels) != len(files) {
		t.Fatalf("%d files have %d different contents", len(files), len(pixels))
	}
	var workers sync.WaitGroup
	for w := range 4 {
		workers.Go(func() {
			d := NewDecoder(Options{})
			defer d.Close()
			random := rand.New(rand.NewPCG(7, uint64(w)))
			const images = 500
			for n := range images {
				i := random.IntN(len(files) >> (n / 64 % 3)) // all, or so few that they are found again
				f := files[i]
				h := headerOf(f.data)
				if pix, err := decodeTo(t, d, f.name, f.data, h); err != nil || !bytes.Equal(pix, want[i]) {
					t.Errorf("%s: other pixels, %v", f.name, err)
					return
				}
				if held, said := d.ScratchBytes(), scratch(h, RGB, 1); held > said {
					t.Errorf("%s: %d bytes held, %d announced", f.name, held, said)
				}
				if n%100 == 99 {
					d.Trim()
				}
			}
			if n := d.TakeJPEGs().Baseline; n != images {
				t.Errorf("the baseline decoder accepted %d of %d", n, images)
			}
		})
	}
	workers.Wait()
}

// TestKernelNames: Fastest stands for a kernel that runs here.
func TestKernelNames(t *testing.T) {
	names := map[string]bool{}
	for _, k := range Kernels() {
		names[k.String()] = true
	}
	if !names[chosen(Fastest).String()] || !names[LibJPEG.String()] || !names["portable"] {
		t.Errorf("of %v, %s is the fastest", names, chosen(Fastest))
	}
}

// FuzzBaseline holds the law of TestBaselineDamaged for any bytes and regions. More files to
// start from are read from the directory that BATCHFS_JPEG_CORPUS names.
func FuzzBaseline(f *testing.F) {
	for _, s := range baselineFiles(f) {
		if len(s.data) < 3000 {
			f.Add(s.data, uint64(0), false)
			f.Add(s.data, uint64(0x0102030405060708), true)
		}
	}
	if dir := os.Getenv("BATCHFS_JPEG_CORPUS"); dir != "" {
		names, err := filepath.Glob(filepath.Join(dir, "*"))
		if err != nil || names == nil {
			f.Fatalf("%s: no files, %v", dir, err)
		}
		for _, name := range names {
			if data, err := os.ReadFile(name); err == nil {
				f.Add(data, uint64(0x0807060504030201), false)
			}
		}
	}
	f.Fuzz(func(t *testing.T, data []byte, region uint64, gray bool) {
		h, err := ReadHeader(data, true)
		if err != nil || h.Format != JPEG || h.pixels() > 1<<14 {
			return
		}
		part := func(shift, most int) int { return int(region>>shift&0xffff) % most }
		r := Region{X: part(0, h.Width), Y: part(16, h.Height)}
		r.W, r.H = h.Width-r.X-part(32, h.Width-r.X), h.Height-r.Y-part(48, h.Height-r.Y)
		c := RGB
		if gray {
			c = Gray
		}
		all, others := newKernelSet(t), newKernelSet(t)
		all.same(t, "fuzzed", data, h, c, r)
		all.taken()
		sound := oddFile{"sound", corpus("ycc-2x2-17x33.jpg").data}
		beside := half{oddFile: sound, head: headerOf(sound.data), from: Region{0, 0, 17, 33}}
		fuzzed := half{oddFile: oddFile{"fuzzed", data}, head: h, from: r, rule: EntryRule(r.Y%9 - 1)}
		for i, d := range all[c][1:] {
			samePair(t, [2]*Decoder{d, others[c][1+i]}, [2]half{fuzzed, beside})
			samePair(t, [2]*Decoder{d, others[c][1+i]}, [2]half{beside, fuzzed})
		}
	})
}

// BenchmarkScales decodes a photo at each scale: by libjpeg-turbo, by our own decoder, two in a
// pair, and packed.
func BenchmarkScales(b *testing.B) {
	data := benchFiles()["jpeg"]
	h := headerOf(data)
	for _, scale := range []int{1, 2, 4, 8} {
		w, hh := h.At(scale)
		task := func() Task {
			return Task{To: Image{make([]byte, w*hh*3), w * 3, hh, w}, Data: data, Header: h, Region: Region{W: w, H: hh}, Scale: scale}
		}
		for _, k := range []Kernel{LibJPEG, Fastest} {
			by := [2]*Decoder{NewDecoder(Options{Kernel: k}), NewDecoder(Options{Kernel: k})}
			tasks := [2]Task{task(), task()}
			b.Run(fmt.Sprintf("1in%d-%s", scale, k), func(b *testing.B) {
				for b.Loop() {
					t := &tasks[0]
					if err := by[0].DecodeRegion(t.To, t.Data, t.Header, t.Region, t.Scale); err != nil {
						b.Fatal(err)
					}
				}
			})
			if k == Fastest {
				body, err := packedBodyOf(by[0], data, h)
				if err != nil {
					b.Fatal(err)
				}
				whole := view{Header: h, Region: tasks[0].Region, Scale: scale, Orientation: 1}
				b.Run(fmt.Sprintf("1in%d-packed", scale), func(b *testing.B) {
					for b.Loop() {
						if err := by[0].kept.coefficients(tasks[0].To, packed{body: body}, whole); err != nil {
							b.Fatal(err)
						}
					}
				})
				b.Run(fmt.Sprintf("1in%d-two-in-a-pair", scale), func(b *testing.B) {
					for b.Loop() {
						if errs := DecodePair(&by, &tasks); errs != [2]error{} {
							b.Fatal(errs)
						}
					}
				})
			}
			by[0].Close()
			by[1].Close()
		}
	}
}
