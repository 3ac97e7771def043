//go:build cgo

package decode

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/batchfs/batchfs/internal/fault"
)

// garbage returns data with everything replaced but its first bytes, and those from one place to
// another.
func garbage(data []byte, head int, from, to int64, fill func() byte) []byte {
	out := bytes.Clone(data)
	for i := head; i < len(out); i++ {
		if int64(i) < from || int64(i) >= to {
			out[i] = fill()
		}
	}
	return out
}

// TestEntryPart: with entry points, the pixels of a region do not depend on what is in the file
// outside the part that it needs. If the part is too small, or damaged, that is all that is said.
func TestEntryPart(t *testing.T) {
	all := newKernelSet(t)
	random := rand.New(rand.NewPCG(7, 8))
	end := false
	fills := map[string]func() byte{
		"zeros":   func() byte { return 0 },
		"ends":    func() byte { end = !end; return map[bool]byte{true: 0xff, false: markEOI}[end] },
		"random":  func() byte { return byte(random.Int()) },
		"fill":    func() byte { return 0xff },
		"nothing": func() byte { return 0x55 },
	}
	parts, smaller, reached := 0, 0, 0
	for _, f := range baselineFiles(t) {
		h, err := ReadHeader(f.data, true)
		if err != nil || h.Format != JPEG || h.pixels() > 1<<20 {
			continue
		}
		frame, err := readJPEGFrame(f.data, true)
		if err != nil {
			t.Fatal(err)
		}
		size := int64(len(f.data))
		for round := range 48 {
			c := Color(round % len(all))
			scale := 1 << max(0, round%8-4)
			scaled := h
			scaled.Width, scaled.Height = h.At(scale)
			r := anyRegion(random, scaled)
			d := all[c][1+round%(len(all[c])-1)]
			rule := []EntryRule{EntryRows, 1, 2, 3, 5, 7}[round%6]
			decode := func(data []byte, at []EntryPoint, from, to int64) ([]byte, EntryResult, []EntryPoint, error) {
				v := view{Region: r, Orientation: d.options.orientation(h)}
				height, width := v.size()
				canvas := newCanvas(width, height, c.Channels())
				d.SetEntryPoints(rule, at)
				d.SetPart(from, to)
				err := d.DecodeRegion(canvas.Image, data, h, r, scale)
				made, result := d.TakeEntryPoints()
				return canvas.pixels(t, f.name), result, slices.Clone(made), err
			}
			want, result, at, err := decode(f.data, nil, 0, 0)
			from, to, ok := d.options.EntryPart(f.data[:frame.scan], size, rule, at, r, scale)
			if ok != (err == nil && result == EntriesMade && len(at) > 0) {
				t.Fatalf("%s: with %d entry points (%d), there is a part: %v", f.name, len(at), result, ok)
			}
			if !ok {
				continue
			}
			parts++
			name := fmt.Sprintf("%s: %+v of %dx%d at 1/%d, rule %d, bytes %d to %d of %d", f.name, r, h.Width, h.Height, scale, rule, from, to, size)
			if from < int64(frame.scan) || to > size {
				t.Fatal(name)
			}
			if reach := d.options.EntryReach(rule, at, h.Height, r.Y+r.H, scale); reach > 0 {
				reached++
				if over := reach - to; over < 0 || over > size/4 && size > 4<<10 {
					t.Errorf("%s: %d bytes are expected to do", name, reach)
				}
			}
			for what, fill := range fills {
				got, result, _, err := decode(garbage(f.data, frame.scan, from, to, fill), at, from, to)
				if err != nil || result != EntriesUsed || !bytes.Equal(got, want) {
					t.Fatalf("%s, %s: %v (%d), same pixels %v", name, what, err, result, bytes.Equal(got, want))
				}
			}
			if to-from < size-int64(frame.scan) {
				smaller++
			}
			for _, less := range [][2]int64{{from + 1, to}, {from, to - 1}} {
				if _, result, _, err := decode(f.data, at, less[0], less[1]); !errors.Is(err, ErrPart) || fault.Of(err) == fault.File || result != EntriesUnused {
					t.Errorf("%s, but %d: %v (%d)", name, less, err, result)
				}
			}
			spoilt := bytes.Clone(f.data)
			for i := from; i < to; i++ {
				spoilt[i] = 0xff
			}
			if _, result, _, err := decode(spoilt, at, from, to); !errors.Is(err, ErrPart) || result != EntriesUnused {
				t.Errorf("%s, damaged: %v (%d)", name, err, result)
			}
			if got, _, _, err := decode(f.data, at, 0, 0); err != nil || !bytes.Equal(got, want) {
				t.Errorf("%s, whole again: %v", name, err)
			}
		}
	}
	t.Logf("%d parts, %d of them smaller than the file, %d with an end that is known before", parts, smaller, reached)
	if parts < 1500 || smaller < 1000 || reached < 100 {
		t.Error("too few")
	}
}

// TestEntryPartOfNothing: nothing is said of a file whose header is not all there, or that has no
// entry points of this rule, nor of what is not in the image.
func TestEntryPartOfNothing(t *testing.T) {
	all := newKernelSet(t)
	d, data, whole := all[RGB][1], corpus("ycc-2x2-17x33.jpg").data, Region{W: 17, H: 33}
	h, err := ReadHeader(data, true)
	if err != nil {
		t.Fatal(err)
	}
	d.SetEntryPoints(EntryRows, nil)
	if err := d.DecodeRegion(newCanvas(17, 33, 3).Image, data, h, whole, 1); err != nil {
		t.Fatal(err)
	}
	at, _ := d.TakeEntryPoints()
	if _, _, ok := d.options.EntryPart(data, int64(len(data)), EntryRows, at, whole, 1); !ok {
		t.Fatal("there is no part of a good file")
	}
	frame, err := readJPEGFrame(data, true)
	if err != nil {
		t.Fatal(err)
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
		"nothing":            {nil, EntryRows, at, whole, 1},
		"short head":         {data[:frame.scan-1], EntryRows, at, whole, 1},
		"none":               {data, EntryRows, nil, whole, 1},
		"another rule":       {data, 3, at, whole, 1},
		"one too few":        {data, EntryRows, at[1:], whole, 1},
		"no rule":            {data, EntryOff, at, whole, 1},
		"outside":            {data, EntryRows, at, Region{Y: 20, W: 17, H: 14}, 1},
		"negative":           {data, EntryRows, at, Region{X: -1, W: 17, H: 14}, 1},
		"no scale":           {data, EntryRows, at, Region{W: 6, H: 11}, 3},
		"outside at a scale": {data, EntryRows, at, whole, 2},
		"beyond":             {data, EntryRows, wrong, Region{Y: 32, W: 1, H: 1}, 1},
		"progressive":        {corpus("progressive.jpg").data, EntryRows, at, Region{W: 1, H: 1}, 1},
		"another image":      {corpus("restarts.jpg").data, EntryRows, at, Region{W: 1, H: 1}, 1},
	} {
		if from, to, ok := d.options.EntryPart(c.head, int64(len(data)), c.rule, c.at, c.r, c.scale); ok {
			t.Errorf("%s: bytes %d to %d", name, from, to)
		}
	}
	if _, _, ok := all[RGB][0].options.EntryPart(data, int64(len(data)), EntryRows, at, whole, 1); ok {
		t.Error("libjpeg-turbo has no use for a part")
	}
}
