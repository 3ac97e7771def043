package decode_test

import (
	"bytes"
	"errors"
	"fmt"
	"image"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/batchfs/batchfs/internal/fault"

	. "github.com/batchfs/batchfs/decode"
)

// ownKernels are decoders that use entry points, one per kernel.
func ownKernels(t testing.TB) (all []coder) {
	needsC(t)
	for _, k := range Kernels()[1:] {
		all = append(all, newCoder(t, Options{Kernel: k}), newCoder(t, Options{Kernel: k, Color: Gray}))
	}
	return all
}

// by returns the same request with entry points.
func (a ask) by(rule EntryRule, at []EntryPoint) ask {
	a.rule, a.at = rule, at
	return a
}

func (a ask) from(r Region) ask {
	a.region = r
	return a
}

// TestBaselineEntryPoints: there are few entry points per row of MCUs, and only a sound file has
// any, whichever region is decoded. everywhere checks that all kernels make the same.
func TestBaselineEntryPoints(t *testing.T) {
	whole, damaged := whole(corpus("ycc-2x2-17x33.jpg").file).by(EntryRows, nil), whole(corpus("progressive.jpg").file).by(EntryRows, nil)
	corner := Region{1, 1, 2, 2}
	for _, d := range ownKernels(t) {
		want := d.decode(t, whole)
		if want.result != EntriesMade || len(want.made) != 2 { // of 2 by 3 MCUs
			t.Errorf("%s made %s", d.o.Kernel, want)
		}
		if got := d.decode(t, whole.from(corner)); got.result != EntriesMade || !slices.Equal(got.made, want.made) {
			t.Errorf("%s made %s of a corner, not %s", d.o.Kernel, got, want)
		}
		ends := whole.from(corner)
		ends.data = slices.Insert(bytes.Clone(ends.data), len(ends.data)-2, 0, 0, 0, 0)
		for _, a := range []ask{ends, damaged.from(corner)} {
			if got := d.decode(t, a); got.err != nil || got.result != EntriesNone {
				t.Errorf("%s: %s of a progressive file, or one with a damaged end", d.o.Kernel, got)
			}
		}
	}
}

// TestBaselineWrongEntryPoints: entry points of another image are detected at the first one that is
// passed. Until then they may cause wrong pixels, but nothing else.
func TestBaselineWrongEntryPoints(t *testing.T) {
	random := rand.New(rand.NewPCG(5, 6))
	for _, name := range []string{"ycc-2x2-17x33.jpg", "ycc-1x1-16x16.jpg", "restarts.jpg"} {
		a := whole(corpus(name).file)
		for _, d := range ownKernels(t) {
			want := d.decode(t, a.by(1, nil))
			for bit := range 64 * len(want.made) {
				at := slices.Clone(want.made)
				at[bit/64] ^= 1 << (bit % 64)
				if got := d.decode(t, a.by(1, at)); got.result != EntriesWrong || !got.same(want) {
					t.Fatalf("%s: %s did not notice that bit %d was inverted, or made other pixels", name, d.o.Kernel, bit)
				}
				if err := d.decode(t, a.by(1, at).some(random)).err; err != nil {
					t.Fatalf("%s: %v", name, err)
				}
			}
			if got := d.decode(t, a.by(1, want.made[1:])); got.result != EntriesWrong || !got.same(want) {
				t.Errorf("%s: %s did not notice that an entry point was missing", name, d.o.Kernel)
			}
			if name == "ycc-2x2-17x33.jpg" { // 2 MCUs a row: the region ends before the next entry point
				at := d.decode(t, a.by(EntryRows, nil)).made
				at[1] = at[1]>>22<<22 | 1
				if got := d.decode(t, a.by(EntryRows, at).from(Region{1, 18, 4, 4})); got.result != EntriesWrong {
					t.Errorf("%s did not notice that it read beyond the next entry point", d.o.Kernel)
				}
			}
		}
	}
}

// TestBaselineExtremeCoefficients: if coefficients of a file are left to libjpeg-turbo, its entry
// points are not wrong. It has none; otherwise, they would be stored again for each crop without
// such coefficients.
func TestBaselineExtremeCoefficients(t *testing.T) {
	a := whole(corpus("ycc-2x2-17x33.jpg").file)
	a.data = bytes.Clone(a.data)
	jpegSegments(a.data, func(m byte, whole []byte) {
		for i := 5; m == markDQT && i < len(whole); i++ {
			whole[i] = 30 // the blocks of some crops are beyond what is certain
		}
	})
	d := ownKernels(t)[0]
	var at []EntryPoint
	results := map[EntryResult]int{}
	n := pixelsOf(a.head)
	crop := func(i int) Region { return Region{i % a.head.Width, i / a.head.Width, 1, 1} }
	for i := range n {
		if x := d.decode(t, a.by(1, nil).from(crop(i))); x.result == EntriesMade {
			at = x.made
		}
	}
	for i := range n {
		results[d.decode(t, a.by(1, at).from(crop(i))).result]++
	}
	if results[EntriesUsed] == 0 || results[EntriesUsed] == n {
		t.Fatalf("the crops do not differ: %v", results)
	}
	if results[EntriesWrong] > 0 {
		t.Errorf("right entry points were said to be wrong: %v", results)
	}
}

// TestBaselineEntryPointsMemory: with the maximal number of entry points, no more memory is held
// than announced, which every test checks.
func TestBaselineEntryPointsMemory(t *testing.T) {
	d := ownKernels(t)[0]
	a := whole(file{"tall", encodedJPEG(image.NewGray(image.Rect(0, 0, 8, 8*8187)), 75)}).by(1, nil).from(Region{0, 0, 1, 1})
	made := d.decode(t, a).made
	if x := d.decode(t, a.by(1, made)); len(made) != 8186 || x.result != EntriesUsed {
		t.Errorf("%d entry points: %s", len(made), x)
	}
}

// garbage returns data with everything replaced except its first bytes and one part.
func garbage(data []byte, head int, part [2]int64, fill func() byte) []byte {
	out := bytes.Clone(data)
	for i := head; i < len(out); i++ {
		if int64(i) < part[0] || int64(i) >= part[1] {
			out[i] = fill()
		}
	}
	return out
}

// TestEntryPart: with entry points, the pixels of a region do not depend on the file outside the
// needed part. If the part is too small, or damaged, the error says no more than that.
func TestEntryPart(t *testing.T) {
	own, random, end := ownKernels(t), rand.New(rand.NewPCG(7, 8)), false
	fills := map[string]func() byte{
		"zeros":   func() byte { return 0 },
		"ends":    func() byte { end = !end; return map[bool]byte{true: 0xff, false: markEOI}[end] },
		"random":  func() byte { return byte(random.Int()) },
		"fill":    func() byte { return 0xff },
		"nothing": func() byte { return 0x55 },
	}
	parts, smaller, reached := 0, 0, 0
	for _, f := range jpegFiles() {
		a := whole(f)
		if a.head.Format != JPEG || pixelsOf(a.head) > 1<<20 {
			continue
		}
		size, head := int64(len(f.data)), scanOf(f.data)
		for round := range 48 {
			d := own[round%len(own)]
			a := a.reduced(1<<max(0, round%8-4)).some(random).by([]EntryRule{EntryRows, 1, 2, 3, 5, 7}[round%6], nil)
			want := d.decode(t, a)
			from, to, ok := d.o.EntryPart(f.data[:head], size, a.rule, want.made, a.region, a.scale)
			if ok != (want.err == nil && want.result == EntriesMade && len(want.made) > 0) {
				t.Fatalf("%s: with %s, there is a part: %v", a, want, ok)
			}
			if !ok {
				continue
			}
			parts++
			a.at, a.part = want.made, [2]int64{from, to}
			name := fmt.Sprintf("%s, bytes %d to %d of %d", a, from, to, size)
			if from < int64(head) || to > size {
				t.Fatal(name)
			}
			if reach := d.o.EntryReach(a.rule, a.at, a.head.Height, a.region.Y+a.region.H, a.scale); reach > 0 {
				reached++
				if over := reach - to; over < 0 || over > size/4 && size > 4<<10 {
					t.Errorf("%s: %d bytes are expected to do", name, reach)
				}
			}
			for what, fill := range fills {
				spoilt := a
				spoilt.data = garbage(f.data, head, a.part, fill)
				if got := d.decode(t, spoilt); got.result != EntriesUsed || !got.same(want) {
					t.Fatalf("%s, %s: %s, or other pixels", name, what, got)
				}
			}
			if to-from < size-int64(head) {
				smaller++
			}
			damaged := a
			damaged.data = garbage(f.data, int(from), [2]int64{to, size}, fills["fill"])
			for _, a := range []ask{a.having(from+1, to), a.having(from, to-1), damaged} {
				if x := d.decode(t, a); !errors.Is(x.err, ErrPart) || fault.Of(x.err) == fault.File || x.result != EntriesUnused {
					t.Errorf("%s, but %d, or damaged: %s", name, a.part, x)
				}
			}
			if got := d.decode(t, a.having(0, 0)); !got.same(want) {
				t.Errorf("%s, whole again: %s, or other pixels", name, got)
			}
		}
	}
	t.Logf("%d parts, %d of them smaller than the file, %d with an end that is known before", parts, smaller, reached)
	if parts < 1500 || smaller < 1000 || reached < 100 {
		t.Error("too few")
	}
}

func (a ask) having(from, to int64) ask {
	a.part = [2]int64{from, to}
	return a
}

// TestEntryPartOfNothing: there is no part for a file with an incomplete header, or without entry
// points of this rule, or for a region outside of the image.
func TestEntryPartOfNothing(t *testing.T) {
	d, a := ownKernels(t)[0], whole(corpus("ycc-2x2-17x33.jpg").file).by(EntryRows, nil)
	data, all, at := a.data, a.region, d.decode(t, a).made
	if _, _, ok := d.o.EntryPart(data, int64(len(data)), EntryRows, at, all, 1); !ok {
		t.Fatal("there is no part of a good file")
	}
	wrong := slices.Clone(at)
	wrong[0] |= 1<<22 - 1 // far beyond the file
	for name, c := range map[string]struct {
		head  []byte
		rule  EntryRule
		at    []EntryPoint
		r     Region
		scale int
	}{
		"nothing":            {nil, EntryRows, at, all, 1},
		"short head":         {data[:scanOf(data)-1], EntryRows, at, all, 1},
		"none":               {data, EntryRows, nil, all, 1},
		"another rule":       {data, 3, at, all, 1},
		"one too few":        {data, EntryRows, at[1:], all, 1},
		"no rule":            {data, EntryOff, at, all, 1},
		"outside":            {data, EntryRows, at, Region{Y: 20, W: 17, H: 14}, 1},
		"negative":           {data, EntryRows, at, Region{X: -1, W: 17, H: 14}, 1},
		"no scale":           {data, EntryRows, at, Region{W: 6, H: 11}, 3},
		"outside at a scale": {data, EntryRows, at, all, 2},
		"beyond":             {data, EntryRows, wrong, Region{Y: 32, W: 1, H: 1}, 1},
		"progressive":        {corpus("progressive.jpg").data, EntryRows, at, Region{W: 1, H: 1}, 1},
		"another image":      {corpus("restarts.jpg").data, EntryRows, at, Region{W: 1, H: 1}, 1},
	} {
		if from, to, ok := d.o.EntryPart(c.head, int64(len(data)), c.rule, c.at, c.r, c.scale); ok {
			t.Errorf("%s: bytes %d to %d", name, from, to)
		}
	}
	if _, _, ok := (Options{Kernel: LibJPEG}).EntryPart(data, int64(len(data)), EntryRows, at, all, 1); ok {
		t.Error("libjpeg-turbo has no use for a part")
	}
}
