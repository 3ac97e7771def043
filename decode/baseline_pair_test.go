//go:build cgo

package decode

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
)

// A half is one image of a pair.
type half struct {
	oddFile
	head Header
	from Region
	rule EntryRule
	at   []EntryPoint
	odd  bool // it is damaged
}

// A yield is everything that comes of decoding one image.
type yield struct {
	pix    []byte
	err    string
	result EntryResult
	made   []EntryPoint
	jpegs  JPEGs
}

func (d *Decoder) yieldOf(t testing.TB, f *half, c *canvas, err error) (y yield) {
	made, result := d.TakeEntryPoints()
	y = yield{c.pixels(t, f.name), fmt.Sprint(err), result, slices.Clone(made), d.TakeJPEGs()}
	if err != nil {
		y.pix = nil
	}
	return y
}

func (y yield) equal(z yield) bool {
	return bytes.Equal(y.pix, z.pix) && y.err == z.err && y.result == z.result && slices.Equal(y.made, z.made) && y.jpegs == z.jpegs
}

func (f *half) task(d *Decoder) (*canvas, Task) {
	v := view{Region: f.from, Orientation: d.options.orientation(f.head)}
	height, width := v.size()
	c := newCanvas(width, height, d.options.Color.Channels())
	d.SetEntryPoints(f.rule, f.at)
	return c, Task{To: c.Image, Data: f.data, Header: f.head, Region: f.from, Scale: 1}
}

func (f *half) decodeAlone(t testing.TB, d *Decoder) yield {
	c, task := f.task(d)
	return d.yieldOf(t, f, c, d.DecodeRegion(task.To, task.Data, task.Header, task.Region, task.Scale))
}

// pairable reports that a whole file, of which this came when it was decoded alone, can be decoded
// beside another one.
func (f *half) pairable(y yield) bool {
	return f.at == nil && y.jpegs.Baseline == 1 && !bytes.Contains(f.data, []byte("\xff\xc2")) // progressive
}

// samePair checks that two images come out of DecodePair as they do alone.
func samePair(t testing.TB, by [2]*Decoder, halves [2]half) (alone [2]yield) {
	t.Helper()
	var to [2]*canvas
	var tasks [2]Task
	for i, d := range by {
		alone[i] = halves[i].decodeAlone(t, d)
		to[i], tasks[i] = halves[i].task(d)
	}
	errs := DecodePair(&by, &tasks)
	for i, d := range by {
		f, want := &halves[i], alone[i]
		if got := d.yieldOf(t, f, to[i], errs[i]); !got.equal(want) {
			t.Errorf("%s: %q, %+v, beside %q: %s, %d, %+v; alone %s, %d, %+v; or other pixels or entry points", d.options.Kernel, f.name, f.from,
				halves[1-i].name, got.err, got.result, got.jpegs, want.err, want.result, want.jpegs)
		}
	}
	return alone
}

// together reports whether two images are decoded in one call.
func together(t testing.TB, by [2]*Decoder, halves [2]half) bool {
	t.Helper()
	var tasks [2]Task
	var views [2]view
	var err error
	for i, d := range by {
		_, tasks[i] = halves[i].task(d)
		if views[i], err = d.view(&tasks[i]); err != nil {
			t.Fatal(err)
		}
	}
	yes := by[0].kept.pair(&by[1].kept, &tasks, &views)
	for _, d := range by {
		d.TakeEntryPoints()
		d.TakeJPEGs()
	}
	return yes
}

// anyHalf is a file, whole or damaged, and any region of it. It has entry points if a decoder makes
// them of it.
func anyHalf(t testing.TB, r *rand.Rand, files []oddFile, d *Decoder) half {
	for {
		f := files[r.IntN(len(files))]
		damage := r.IntN(8)
		switch n := len(f.data); damage {
		case 0:
			f = oddFile{f.name + ", damaged", bytes.Clone(f.data)}
			f.data[n/4+r.IntN(n*3/4)] ^= 1 << r.IntN(8)
		case 1:
			f = oddFile{f.name + ", cut", f.data[:r.IntN(n)]}
		}
		h, err := ReadHeader(f.data, true)
		if err != nil || h.pixels() > 1<<16 {
			continue
		}
		a := half{f, h, Region{0, 0, h.Width, h.Height}, [...]EntryRule{EntryOff, EntryRows, 3}[r.IntN(3)], nil, damage < 2}
		if r.IntN(2) == 0 {
			a.from = anyRegion(r, h)
		}
		if h.Format == JPEG && r.IntN(8) == 0 {
			if y := a.decodeAlone(t, d); y.result == EntriesMade {
				a.at = y.made
			}
		}
		return a
	}
}

// samePairs tries as many pairs of any files in each kernel, and checks that those are decoded
// together that can be.
func samePairs(t *testing.T, all, others kernelSet, files []oddFile, each int) {
	random, pairs := rand.New(rand.NewPCG(8, 9)), 0
	for c := range all {
		for i, d := range all[c] {
			by := [2]*Decoder{d, others[c][i]}
			for range each {
				halves := [2]half{anyHalf(t, random, files, d), anyHalf(t, random, files, d)}
				alone := samePair(t, by, halves)
				if halves[0].pairable(alone[0]) && halves[1].pairable(alone[1]) && !halves[0].odd && !halves[1].odd {
					if pairs++; !together(t, by, halves) {
						t.Errorf("%s: %q and %q are not decoded together", d.options.Kernel, halves[0].name, halves[1].name)
					}
				}
			}
		}
	}
	t.Logf("%d pairs were decoded together", pairs)
	if pairs < each/10 {
		t.Error("that is too few")
	}
}

// TestBaselinePairs: what comes of an image does not depend on the one it is decoded with: of any
// kind and size, damaged or not, with entry points or without.
func TestBaselinePairs(t *testing.T) {
	each := 2000
	if testing.Short() {
		each = 200
	}
	samePairs(t, newKernelSet(t), newKernelSet(t), baselineFiles(t), each)
}

// TestBaselineAlonePairs is TestBaselinePairs without libjpeg-turbo, like TestBaselineAlone.
func TestBaselineAlonePairs(t *testing.T) {
	files := slices.DeleteFunc(baselineFiles(t), func(f oddFile) bool { return Sniff(f.data) != JPEG })
	samePairs(t, newAloneSet(t), newAloneSet(t), files, 500)
}

// TestBaselinePairsAllocateNothing on the Go heap.
func TestBaselinePairsAllocateNothing(t *testing.T) {
	all := newAloneSet(t)[RGB]
	by := [2]*Decoder{all[0], all[1]}
	f := half{oddFile: oddFile{"plain", corpus("plain-37x21.jpg").data}}
	f.head = headerOf(f.data)
	f.from = Region{0, 0, f.head.Width, f.head.Height}
	if !together(t, by, [2]half{f, f}) {
		t.Fatal("they are not decoded together")
	}
	_, first := f.task(by[0])
	_, second := f.task(by[1])
	tasks := [2]Task{first, second}
	if n := testing.AllocsPerRun(100, func() { DecodePair(&by, &tasks) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
