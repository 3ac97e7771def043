//go:build cgo

package decode

import (
	"bytes"
	"image"
	"image/jpeg"
	"math/rand/v2"
	"slices"
	"testing"
)

// TestBaselineEntryPoints: those of a row of MCUs are few, are made of a sound file only, whichever
// region is decoded, and are the same from all kernels.
func TestBaselineEntryPoints(t *testing.T) {
	all := newKernelSet(t)
	make := func(d *Decoder, data []byte, r Region) ([]EntryPoint, EntryResult) {
		h, err := ReadHeader(data, true)
		if err != nil {
			t.Fatal(err)
		}
		d.SetEntryPoints(EntryRows, nil)
		if err := d.DecodeRegion(newCanvas(r.W, r.H, 3).Image, data, h, r, 1); err != nil {
			t.Fatal(err)
		}
		return d.TakeEntryPoints()
	}
	file := corpus("ycc-2x2-17x33.jpg").data // 2 by 3 MCUs
	damaged := bytes.Clone(file)
	damaged = slices.Insert(damaged, len(damaged)-2, 0, 0, 0, 0) // before the end marker
	whole, corner := Region{0, 0, 17, 33}, Region{1, 1, 2, 2}
	var want []EntryPoint
	for _, d := range all[RGB][1:] {
		at, result := make(d, file, whole)
		if want == nil {
			want = slices.Clone(at)
		}
		if result != EntriesMade || len(at) != 2 || !slices.Equal(at, want) {
			t.Errorf("%s made %x (%d), want %x", d.options.Kernel, at, result, want)
		}
		if at, result := make(d, file, corner); result != EntriesMade || !slices.Equal(at, want) {
			t.Errorf("%s made %x (%d) of a corner, want %x", d.options.Kernel, at, result, want)
		}
		if at, result := make(d, damaged, corner); result != EntriesNone {
			t.Errorf("%s made %x (%d) of a file with a damaged end", d.options.Kernel, at, result)
		}
		if at, result := make(d, corpus("progressive.jpg").data, corner); result != EntriesNone {
			t.Errorf("%s made %x (%d) of a progressive file", d.options.Kernel, at, result)
		}
	}
}

// TestBaselineWrongEntryPoints: entry points of another image are noticed at the first one that is
// passed. Until then they may cause wrong pixels, but nothing else.
func TestBaselineWrongEntryPoints(t *testing.T) {
	all := newKernelSet(t)
	random := rand.New(rand.NewPCG(5, 6))
	for _, name := range []string{"ycc-2x2-17x33", "ycc-1x1-16x16", "restarts"} {
		data := corpus(name + ".jpg").data
		h, err := ReadHeader(data, true)
		if err != nil {
			t.Fatal(err)
		}
		want := newCanvas(h.Width, h.Height, 3)
		if err := all[RGB][0].Decode(want.Image, data, h); err != nil {
			t.Fatal(err)
		}
		for _, d := range all[RGB][1:] {
			try := func(rule EntryRule, at []EntryPoint, r Region) ([]EntryPoint, EntryResult, *canvas) {
				to := newCanvas(r.W, r.H, 3)
				d.SetEntryPoints(rule, at)
				if err := d.DecodeRegion(to.Image, data, h, r, 1); err != nil {
					t.Fatalf("%s: %v", name, err)
				}
				made, result := d.TakeEntryPoints()
				return slices.Clone(made), result, to
			}
			whole := Region{0, 0, h.Width, h.Height}
			right, _, _ := try(1, nil, whole)
			for bit := range 64 * len(right) {
				at := slices.Clone(right)
				at[bit/64] ^= 1 << (bit % 64)
				if _, result, to := try(1, at, whole); result != EntriesWrong || !bytes.Equal(to.pixels(t, name), want.pixels(t, name)) {
					t.Fatalf("%s: %s did not notice that bit %d was inverted, or made other pixels", name, d.options.Kernel, bit)
				}
				try(1, at, anyRegion(random, h))
			}
			if name == "ycc-2x2-17x33" { // 2 MCUs a row: the region ends before the next entry point
				at, _, _ := try(EntryRows, nil, whole)
				at[1] = at[1]>>22<<22 | 1
				if _, result, _ := try(EntryRows, at, Region{1, 18, 4, 4}); result != EntriesWrong {
					t.Errorf("%s did not notice that it read beyond the next entry point", d.options.Kernel)
				}
			}
			if _, result, _ := try(1, right[1:], whole); result != EntriesWrong {
				t.Errorf("%s: %s did not notice that an entry point was missing", name, d.options.Kernel)
			}
		}
	}
}

// TestBaselineExtremeCoefficients: where a file has coefficients that are left to libjpeg-turbo,
// its entry points are not wrong. It has none, or they would be stored again for each crop without
// such coefficients.
func TestBaselineExtremeCoefficients(t *testing.T) {
	data := bytes.Clone(corpus("ycc-2x2-17x33.jpg").data)
	jpegSegments(data, func(m byte, whole []byte) {
		for i := 5; m == markDQT && i < len(whole); i++ {
			whole[i] = 30 // the blocks of some crops are beyond what is certain
		}
	})
	h := headerOf(data)
	d := NewDecoder(Options{Kernel: Portable})
	defer d.Close()
	decode := func(at []EntryPoint, x, y int) ([]EntryPoint, EntryResult) {
		d.SetEntryPoints(1, at)
		if err := d.DecodeRegion(newCanvas(1, 1, 3).Image, data, h, Region{x, y, 1, 1}, 1); err != nil {
			t.Fatal(err)
		}
		made, result := d.TakeEntryPoints()
		return slices.Clone(made), result
	}
	var at []EntryPoint
	results := map[EntryResult]int{}
	for i := range h.Width * h.Height {
		if made, result := decode(nil, i%h.Width, i/h.Width); result == EntriesMade {
			at = made
		}
	}
	for i := range h.Width * h.Height {
		_, result := decode(at, i%h.Width, i/h.Width)
		results[result]++
	}
	if results[EntriesUsed] == 0 || results[EntriesUsed] == h.Width*h.Height {
		t.Fatalf("the crops do not differ: %v", results)
	}
	if results[EntriesWrong] > 0 {
		t.Errorf("right entry points were said to be wrong: %v", results)
	}
}

// TestBaselineEntryPointsMemory: no more is held than was announced, entry points included.
func TestBaselineEntryPointsMemory(t *testing.T) {
	d := NewDecoder(Options{Kernel: Portable})
	defer d.Close()
	for _, f := range append(ownTables()[:2], oddFile{"tall", tall(t)}) {
		h := headerOf(f.data)
		var at []EntryPoint
		for range 2 { // to make them, and to use them
			before, needs := d.ScratchBytes(), d.Needs(h)-h.Scratch
			d.SetEntryPoints(1, at)
			to := newCanvas(1, 1, 3)
			if err := d.DecodeRegion(to.Image, f.data, h, Region{0, 0, 1, 1}, 1); err != nil {
				t.Fatal(err)
			}
			made, _ := d.TakeEntryPoints()
			at = slices.Clone(made)
			if held, said := d.ScratchBytes(), scratch(h, RGB, 1); held > said || held-before > needs {
				t.Errorf("%s: %d bytes held, %d announced; %d more, %d announced", f.name, held, said, held-before, needs)
			}
		}
	}
}

// tall returns a JPEG of one column of as many MCUs as can have entry points.
func tall(t *testing.T) []byte {
	var out bytes.Buffer
	if err := jpeg.Encode(&out, image.NewGray(image.Rect(0, 0, 8, 8*8187)), nil); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}
