//go:build cgo && linux && !asan && !msan

package decode

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/batchfs/batchfs/decode/internal/starve"
	"github.com/batchfs/batchfs/internal/fault"
)

// hungry are files whose decoding allocates in all possible ways, and damaged ones.
func hungry(t testing.TB) []oddFile {
	out := oddFiles(t)
	for _, s := range allSamples() {
		switch {
		case s.format == PNG && strings.Contains(s.name, "33x19"):
			tiff := chunk("eXIf", exifWith(6, false))
			out = append(out, oddFile{s.name, edited(s.data, func(p *pngParts) { p.before = append(p.before, tiff...) })})
		case s.format == WebP:
			out = append(out, oddFile{s.name, s.data}, oddFile{s.name + " cut", s.data[:len(s.data)*3/4]})
		}
	}
	for _, f := range damagedFiles() {
		out = append(out, oddFile{f.name, f.data})
	}
	if !webpSafe() {
		t.Log("NOT TESTED: lossless WebP, since this libwebp may crash on it when out of memory; 1.4.0 does not")
		out = slices.DeleteFunc(out, func(f oddFile) bool {
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
	files, failures := hungry(t), map[Format]int{}
	for _, set := range codecSets() {
		if set.goes {
			continue
		}
		for _, o := range []Options{{}, {Color: Gray}} {
			for _, f := range files {
				if !set.has(Sniff(f.data)) {
					continue
				}
				d := set.decoder(t, o)
				want := verdictOf(t, d, f, 1)
				d.Close()
				all := starved(t, set, o, f, 0, false, want)
				for nth := 1; nth <= all; nth++ {
					starved(t, set, o, f, nth, false, want)
					starved(t, set, o, f, nth, true, want)
				}
				failures[Sniff(f.data)] += all
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
func starved(t *testing.T, set codecSet, o Options, f oddFile, nth int, rest bool, want verdict) (allocations int) {
	t.Helper()
	d := set.make(o)
	defer d.Close()
	h, err := ReadHeader(f.data, true)
	if err != nil {
		return 0
	}
	height, width := h.Size(false)
	c := newCanvas(width, height, o.Color.Channels())
	allocations = starve.Run(nth, rest, func() { err = d.Decode(c.Image, f.data, h) })
	name := fmt.Sprintf("%s %q in %d channels, allocation %d failed", set.name, f.name, o.Color.Channels(), nth)
	pix := c.pixels(t, name)
	switch {
	case errors.Is(err, ErrMemory) && nth > 0:
		if fault.Of(err) == fault.File {
			t.Errorf("%s: blamed on the image: %v", name, err)
		}
	case err == nil && want.err == "":
		if !bytes.Equal(pix, want.pix) {
			t.Errorf("%s: other pixels", name)
		}
	case err == nil || err.Error() != want.err:
		t.Errorf("%s: %v, without %q", name, err, want.err)
	}
	if v := verdictOf(t, d, f, 1); v.err != want.err || !bytes.Equal(v.pix, want.pix) {
		t.Errorf("%s: afterwards %q, want %q, or other pixels", name, v.err, want.err)
	}
	return allocations
}

// TestEveryAllocationOfAPairFails: each image of a pair is then right or without memory, and right
// the next time.
func TestEveryAllocationOfAPairFails(t *testing.T) {
	if !starve.Available() {
		t.Skip("allocations cannot be made to fail with this C library")
	}
	halves := [2]half{{oddFile: ownTables()[0]}, {oddFile: oddFile{"another", corpus("restarts.jpg").data}}}
	for i := range halves {
		f := &halves[i]
		f.head, f.rule = headerOf(f.data), EntryRows
		f.from = Region{0, 0, f.head.Width, f.head.Height}
	}
	lacking := 0
	for nth := 1; ; nth++ {
		var by [2]*Decoder
		var to [2]*canvas
		var tasks [2]Task
		for i := range by {
			by[i] = NewDecoder(Options{Kernel: Portable})
			to[i], tasks[i] = halves[i].task(by[i])
		}
		var errs [2]error
		all := starve.Run(nth, true, func() { errs = DecodePair(&by, &tasks) })
		for i, d := range by {
			got := d.yieldOf(t, &halves[i], to[i], errs[i])
			if want := halves[i].decodeAlone(t, d); errors.Is(errs[i], ErrMemory) {
				lacking++
			} else if !got.equal(want) {
				t.Errorf("allocation %d: image %d: %v, or other pixels", nth, i, errs[i])
			}
		}
		samePair(t, by, halves)
		by[0].Close()
		by[1].Close()
		if nth > all {
			break
		}
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
	f := ownTables()[0]
	allocations := func() (*Decoder, int) {
		d := NewDecoder(Options{})
		h := headerOf(f.data)
		height, width := h.Size(false)
		c := newCanvas(width, height, 3)
		var err error
		n := starve.Run(0, false, func() { err = d.Decode(c.Image, f.data, h) })
		if err != nil || d.TakeJPEGs().Baseline != 1 {
			t.Fatal(err)
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

// webpSafe: before 1.4.0, libwebp (with the fix for CVE-2023-4863) frees an uninitialized
// pointer when a small allocation of its lossless decoder fails.
func webpSafe() bool {
	var major, minor, patch int
	_, words, _ := strings.Cut(Version(), "libwebp ")
	_, err := fmt.Sscanf(words, "%d.%d.%d", &major, &minor, &patch)
	return err == nil && (major > 1 || major == 1 && minor >= 4)
}
