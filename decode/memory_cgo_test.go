//go:build cgo && linux && !asan && !msan

package decode_test

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/batchfs/batchfs/decode/internal/starve"
	"github.com/batchfs/batchfs/internal/fault"

	. "github.com/batchfs/batchfs/decode"
	"github.com/batchfs/batchfs/internal/testkit"
)

// hungry are files whose decoding allocates in all possible ways, and damaged ones.
func hungry(t testing.TB) []file {
	out := oddFiles()
	for _, s := range allSamples() {
		switch {
		case s.format == PNG && strings.Contains(s.name, "33x19"):
			out = append(out, s.anyOrientation(5).file)
		case s.format == WebP:
			out = append(out, s.file, file{s.name + " cut", s.data[:len(s.data)*3/4]})
		}
	}
	for _, f := range damagedFiles() {
		if len(f.data) < 1<<20 && headerOf(f.data).Width > 0 {
			out = append(out, file{f.name, f.data})
		}
	}
	if !testkit.WebPSafe(Version()) {
		t.Log("NOT TESTED: lossless WebP, since this libwebp may crash on it when out of memory; 1.4.0 does not")
		out = slices.DeleteFunc(out, func(f file) bool {
			return Sniff(f.data) == WebP && (bytes.Contains(f.data, []byte("VP8L")) || bytes.Contains(f.data, []byte("ALPH")))
		})
	}
	return out
}

// TestEveryAllocationFails: whichever allocation of whichever codec fails, and whether or not
// later ones fail too, the result is the right pixels or ErrMemory, never another verdict on the
// file. The next decode of the file on the same decoder gives the usual result.
func TestEveryAllocationFails(t *testing.T) {
	if !starve.Available() {
		t.Skip("allocations cannot be made to fail with this C library")
	}
	failures := map[Format]int{}
	for _, f := range hungry(t) {
		a := whole(f)
		if a.head.Width == 0 {
			continue
		}
		for _, k := range kernelsOf(a.head.Format) {
			if k == Pure {
				continue
			}
			for _, c := range []Color{RGB, Gray} {
				o := Options{Kernel: k, Color: c}
				d := coder{NewDecoder(o), o}
				want := d.decode(t, a)
				d.Close()
				all := starved(t, o, a, 0, false, want)
				for nth := 1; nth <= all; nth++ {
					starved(t, o, a, nth, false, want)
					starved(t, o, a, nth, true, want)
				}
				failures[a.head.Format] += all
			}
		}
	}
	for _, f := range []Format{JPEG, PNG, WebP} {
		if failures[f] < 30 {
			t.Errorf("only %d allocations of %s failed: were they seen at all?", failures[f], f)
		}
	}
}

// starved decodes on a new decoder whose allocation number nth fails, and then once more.
func starved(t *testing.T, o Options, a ask, nth int, rest bool, want answer) (allocations int) {
	t.Helper()
	d := coder{NewDecoder(o), o}
	defer d.Close()
	c, task := d.task(a)
	var err error
	allocations = starve.Run(nth, rest, func() { err = d.DecodeTask(task) })
	name := fmt.Sprintf("%s with %+v, allocation %d failed", a, o, nth)
	switch got := d.answer(t, a, c, err); {
	case errors.Is(err, ErrMemory) && nth > 0:
		if fault.Of(err) == fault.File {
			t.Errorf("%s: blamed on the image: %v", name, err)
		}
	case !got.same(want):
		t.Errorf("%s: %s, without %s, or other pixels", name, got, want)
	}
	if x := d.decode(t, a); !x.same(want) {
		t.Errorf("%s: afterwards %s, want %s, or other pixels", name, x, want)
	}
	return allocations
}

// TestEveryAllocationOfAPairFails: each image of a pair is then right or fails with ErrMemory, and
// is right the next time.
func TestEveryAllocationOfAPairFails(t *testing.T) {
	if !starve.Available() {
		t.Skip("allocations cannot be made to fail with this C library")
	}
	asks := [2]ask{whole(ownTables()[0]).by(EntryRows, nil), whole(corpus("restarts.jpg").file).by(EntryRows, nil)}
	lacking := 0
	for nth, all := 1, 1; nth <= all+1; nth++ {
		var by [2]coder
		var to [2]*canvas
		var tasks [2]Task
		for i := range by {
			by[i] = newCoder(t, Options{Kernel: Portable})
			to[i], tasks[i] = by[i].task(asks[i])
		}
		var errs [2]error
		all = starve.Run(nth, true, func() { errs = DecodePair(&[2]*Decoder{by[0].Decoder, by[1].Decoder}, &tasks) })
		for i, d := range by {
			got := d.answer(t, asks[i], to[i], errs[i])
			if want := d.decode(t, asks[i]); errors.Is(errs[i], ErrMemory) {
				lacking++
			} else if !got.equal(want) {
				t.Errorf("allocation %d: image %d: %s, not %s, or other pixels", nth, i, got, want)
			}
		}
		samePair(t, by, asks)
		by[0].Close() // it frees tables that the next two would share
		by[1].Close()
	}
	if lacking < 10 {
		t.Errorf("only %d images lacked memory: were their allocations seen at all?", lacking)
	}
}

// TestTablesAreShared: a decoder allocates no Huffman tables that another one holds, and they are
// gone when both are closed.
func TestTablesAreShared(t *testing.T) {
	if !starve.Available() {
		t.Skip("allocations cannot be counted with this C library")
	}
	a := whole(ownTables()[0])
	allocations := func() (d coder, n int) {
		d = newCoder(t, Options{})
		_, task := d.task(a)
		n = starve.Run(0, false, func() { _ = d.DecodeTask(task) })
		if d.TakeJPEGs().Baseline != 1 {
			t.Fatal("our own decoder does not take it")
		}
		return d, n
	}
	for range 2 {
		first, n := allocations()
		second, m := allocations()
		first.Close()
		third, l := allocations()
		second.Close()
		third.Close()
		if n < 3 || m != 1 || l != 1 {
			t.Errorf("the first decoder made %d allocations, the second %d, another one without the first %d", n, m, l)
		}
	}
}
