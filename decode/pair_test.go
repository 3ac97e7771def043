package decode_test

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"strings"
	"testing"

	. "github.com/batchfs/batchfs/decode"
	"github.com/batchfs/batchfs/internal/testkit"
)

// samePair checks that DecodePair gives the same results as decoding two images alone, including
// packing. It reports whether they were decoded in one call, and whether they could be if nothing
// is odd about either.
func samePair(t testing.TB, by [2]coder, asks [2]ask) (together, sound bool) {
	t.Helper()
	var alone [2]answer
	var to [2]*canvas
	var tasks [2]Task
	sound = true
	for i, d := range by {
		a := asks[i]
		a.pack = nil
		alone[i] = d.decode(t, a)
		sound = sound && a.at == nil && alone[i].err == nil && alone[i].jpegs.Baseline == 1 && !bytes.Contains(a.data, []byte{0xff, markSOF2})
	}
	for i, d := range by {
		to[i], tasks[i] = d.task(asks[i])
	}
	errs := DecodePair(&[2]*Decoder{by[0].Decoder, by[1].Decoder}, &tasks)
	for i, d := range by {
		if got := d.answer(t, asks[i], to[i], errs[i]); !got.equal(alone[i]) && !(asks[i].pack != nil && asks[i].at != nil && got.same(alone[i])) {
			t.Errorf("%s: %s beside %s: %s; alone %s; or other pixels or entry points", d.o.Kernel, asks[i], asks[1-i], got, alone[i])
		}
		samePacking(t, d, asks[i], alone[i])
	}
	return by[0].Paired() && by[1].Paired(), sound
}

// samePacking compares the packed form made during decoding with the result of Pack.
func samePacking(t testing.TB, d coder, a ask, decoded answer) {
	t.Helper()
	p := a.pack
	if p == nil {
		return
	}
	want, err := d.Pack(a.data, a.head, ForMemory)
	failed := decoded.err != nil
	switch {
	case p.Err == nil && (err != nil || !bytes.Equal(p.To[:p.Size], want)):
		t.Errorf("%s: packed in another way while it was decoded, %v", a, err)
	case p.Err != nil && (err == nil && !failed || p.Size != 0 || !failed && !errors.Is(p.Err, ErrNoPackedForm) && err.Error() != p.Err.Error()):
		t.Errorf("%s: not packed while it was decoded: %v, but else: %v", a, p.Err, err)
	}
}

// TestPairs: an image's result does not depend on the other image of a pair, of any kind and size,
// damaged or not, with entry points or without, packed at the same time or not; neither does its
// packed form.
func TestPairs(t *testing.T) {
	random, memory := rand.New(rand.NewPCG(8, 9)), [2][]byte{testkit.Fenced(t, 1<<23), testkit.Fenced(t, 1<<23)}
	files := jpegFiles()
	for _, s := range append(noisySamples(t), samples(t)...) {
		if len(s.data) < 1<<16 && random.IntN(16) == 0 {
			files = append(files, s.file)
		}
	}
	each, pairs, packed, total := 3000, 0, 0, 0
	if testing.Short() {
		each = 400
	}
	c, others := newCoders(t), newCoders(t)
	anyAsk := func(d coder, i int) ask {
		for {
			f := files[random.IntN(len(files))]
			switch n := len(f.data); random.IntN(8) {
			case 0:
				f = file{f.name + ", damaged", flipped(random, f.data)}
			case 1:
				f = file{f.name + ", cut", f.data[:random.IntN(n)]}
			}
			a := whole(f)
			if a.head.Width == 0 || pixelsOf(a.head) > 1<<16 {
				continue
			}
			a = a.any(random)
			a.rule = [...]EntryRule{EntryOff, EntryRows, 3}[random.IntN(3)]
			if a.head.Format == JPEG && random.IntN(8) == 0 {
				if x := d.decode(t, a); x.result == EntriesMade {
					a.at = x.made
				}
			}
			if random.IntN(3) == 0 {
				a.pack = &Packing{To: atEnd(memory[i], int(PackedBound(a.head, int64(len(f.data)), ForMemory)))}
			}
			return a
		}
	}
	for _, color := range []Color{RGB, Gray} {
		for _, k := range Kernels() {
			o := Options{Kernel: k, Color: color}
			by := [2]coder{c.with(o), others.with(o)}
			for range each {
				asks := [2]ask{anyAsk(by[0], 0), anyAsk(by[1], 1)}
				total++
				if together, sound := samePair(t, by, asks); together {
					pairs++
				} else if sound && !strings.Contains(asks[0].name+asks[1].name, "damaged") {
					t.Errorf("%s: %s and %s are not decoded together", k, asks[0], asks[1])
				}
				for i, a := range asks {
					if a.pack != nil {
						if a.pack.Err == nil {
							packed++
						}
						want := by[i].decode(t, ask{file: a.file, head: a.head, region: a.region, scale: a.scale})
						a.rule, a.at = EntryOff, nil
						if got := by[i].decode(t, a); !got.same(want) {
							t.Errorf("%s, packed: %s, not %s, or other pixels", a, got, want)
						}
						samePacking(t, by[i], a, want)
					}
				}
			}
		}
	}
	if t.Logf("%d of %d pairs were decoded together, %d images packed", pairs, total, packed); pairs < each/10 && native || packed < each/10 {
		t.Error("that is too few")
	}
}

// TestTaskPackRefused: an image that cannot be packed during decoding is still decoded.
func TestTaskPackRefused(t *testing.T) {
	s := corpus("plain-37x21.png")
	d := newCoder(t, Options{})
	room := make([]byte, PackedBound(headerOf(s.data), int64(len(s.data)), ForMemory))
	packed, err := d.Pack(s.data, headerOf(s.data), ForMemory)
	testkit.Must(t, err)
	for name, c := range map[string]struct {
		data []byte
		room []byte
		kind error
	}{
		"too little room": {s.data, room[1:], ErrDestination},
		"packed already":  {packed, room, ErrNoPackedForm},
	} {
		a := whole(file{name, c.data})
		a.pack = &Packing{To: c.room}
		if x := d.decode(t, a); x.err != nil || !errors.Is(a.pack.Err, c.kind) || a.pack.Size != 0 {
			t.Errorf("%s: %s; packed: %v", name, x, a.pack.Err)
		}
	}
}
