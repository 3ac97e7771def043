package integration

import (
	"crypto/sha256"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/batchfs/batchfs/layout"
	"github.com/batchfs/batchfs/shard"
)

const sameEpochs = 2

// TestPixelsSameBytes reads every batch in every way that must not change a byte of it, in
// several orders and in several concurrent processes, under every mode and dtype, and once
// more after mounting again. Any two settings of read path, workers and depth occur together.
// Package engine's tests cover the processor's kernels and the whole products: of modes and dtypes,
// of workers and depth.
func TestPixelsSameBytes(t *testing.T) {
	skipWithoutFUSE(t)
	a := smallAlbum(t)
	for i, mode := range allModes {
		l := look{
			mode: mode, flip: 0.5, dtype: allDTypes[(i+1)%len(allDTypes)],
			settings: settings{batch: 4, shards: 2, shuffle: true, seed: uint64(i), height: albumHeight, width: albumWidth, fill: 200, gray: i == 2},
		}
		if mode == "none" {
			l.mode, l.height, l.width = "", 0, 0
		}
		if l.dtype != layout.Uint8 {
			l.mean, l.std = normalizations[0].of(l.channels())
		}
		t.Run(l.String(), func(t *testing.T) {
			t.Parallel()
			a.sameBytes(t, l, i)
		})
	}
}

// sameBytes mounts an album in one way, in another way that differs from it in everything,
// and again in the first way.
func (a album) sameBytes(t *testing.T, l look, turn int) {
	all := ways()
	first := turn % 4 // index into the combinations of workers and depth
	chosen := []way{all[first], all[len(all)-1-first], all[first]}
	var wants []digest
	for n, w := range chosen {
		m := mountBatchfs(t, a.dir, l.flags(w.flags()...)...)
		form := []layout.Form{layout.NHWCForm, layout.NCHWForm, layout.SafeTensors}[n]
		if n == 0 {
			wants = m.allDigests(t, l)
		} else {
			m.someFirst(t, form) // the form read first determines how batches are kept
		}
		r := sameReader{m: m, wants: wants}
		switch n {
		case 0:
			r.backwards(t)
		case 1:
			r.crowd(t)
		case 2: // mounted again
			r.forwards(t)
		}
		m.finish(t)
	}
}

// someFirst reads a batch in some form.
func (m *mounted) someFirst(t *testing.T, f layout.Form) {
	t.Helper()
	m.form(t, 0, 0, 1, f)
}

// allDigests returns the sha256 of all batches of two epochs in this mount.
func (m *mounted) allDigests(t *testing.T, l look) (all []digest) {
	t.Helper()
	for epoch := range sameEpochs {
		for s := range l.shards {
			var doc struct{ Batches int }
			m.document(t, filepath.Join(fmt.Sprintf("shard-%d", s), fmt.Sprintf("epoch-%d", epoch), "epoch.json"), &doc)
			for batch := range doc.Batches {
				data := m.form(t, s, epoch, batch, layout.NHWCForm)
				all = append(all, digest{s, epoch, batch, fmt.Sprintf("%x", sha256.Sum256(data))})
			}
		}
	}
	return all
}

type digest struct {
	shard, epoch, batch int
	sum                 string
}

type sameReader struct {
	m     *mounted
	wants []digest
}

func (r sameReader) forwards(t *testing.T) { r.check(t, r.wants) }

func (r sameReader) backwards(t *testing.T) {
	wants := slices.Clone(r.wants)
	slices.Reverse(wants)
	r.check(t, wants)
}

// crowd reads everything in eight concurrent processes, each from a different starting
// point.
func (r sameReader) crowd(t *testing.T) {
	var all sync.WaitGroup
	defer all.Wait()
	for i := range 8 {
		from := i * len(r.wants) / 16 // some follow closely, some do not
		wants := append(slices.Clone(r.wants[from:]), r.wants[:from]...)
		all.Go(func() { r.check(t, wants) })
	}
}

// check reads batches in an order, in one process.
func (r sameReader) check(t *testing.T, wants []digest) {
	args := []string{"sha256sum"}
	for _, d := range wants {
		args = append(args, r.m.path(d.shard, d.epoch, d.batch, layout.NHWCForm))
	}
	out, err := r.m.try(args...)
	if err != nil {
		t.Error(err)
		return
	}
	lines := strings.Split(strings.TrimSpace(out), "\n")
	if len(lines) != len(wants) {
		t.Errorf("%d sums for %d batches", len(lines), len(wants))
		return
	}
	for i, line := range lines {
		if sum, path, _ := strings.Cut(line, "  "); sum != wants[i].sum {
			t.Errorf("%s: %s instead of %s", path, sum, wants[i].sum)
		}
	}
}

// A sighting is a sample in some epoch.
type sighting struct {
	epoch int
	id    int64
}

// sightings reads two epochs and records how each sample looked: its document and its
// pixels.
func (m *mounted) sightings(t *testing.T, l look) map[sighting]string {
	t.Helper()
	seen := map[sighting]string{}
	for _, d := range m.allDigests(t, l) {
		b := m.show(t, l, d.shard, d.epoch, d.batch)
		each := int(b.spec.SampleBytes())
		for i, s := range b.Samples[:b.Valid] {
			how := fmt.Sprintf("%dx%d %v %v %x", s.Height, s.Width, s.Crop, s.Flip, sha256.Sum256(b.nhwc[i*each:(i+1)*each]))
			if s.Status == "ok" {
				seen[sighting{d.epoch, s.ID}] = how
			}
		}
	}
	return seen
}

// TestRandomChoices: a sample's appearance depends only on the seed, the epoch and the
// sample, not on its shard, batch or position.
func TestRandomChoices(t *testing.T) {
	skipWithoutFUSE(t)
	a := smallAlbum(t)
	base := look{mode: "random-resized-crop", flip: 0.5, settings: settings{batch: 4, shards: 1, seed: 5, height: 8, width: 8}}
	want := mountBatchfs(t, a.dir, base.flags()...).sightings(t, base)
	if len(want) != 2*len(a.pictures) {
		t.Fatalf("%d samples were seen, of %d in two epochs", len(want), len(a.pictures))
	}
	for _, change := range []func(*look){
		func(l *look) { l.shards, l.batch = 3, 5 },
		func(l *look) { l.shuffle = true },
		func(l *look) { l.shuffle, l.shards, l.batch, l.stick = true, 5, 3, true },
		func(l *look) { l.nchw, l.shards = true, 22 },
	} {
		l := base
		change(&l)
		for s, how := range mountBatchfs(t, a.dir, l.flags("--workers", "3")...).sightings(t, l) {
			if how != want[s] {
				t.Errorf("under %+v, sample %d is in epoch %d\n%s, not\n%s", l.settings, s.id, s.epoch, how, want[s])
			}
		}
	}
	other := base
	other.seed = 6
	seeded := mountBatchfs(t, a.dir, other.flags()...).sightings(t, other)
	var epochs, seeds int
	looks := map[string]bool{}
	for id := range int64(len(a.pictures)) {
		first := want[sighting{0, id}]
		looks[first] = true
		if first != want[sighting{1, id}] {
			epochs++
		}
		if first != seeded[sighting{0, id}] {
			seeds++
		}
	}
	// One picture has a single pixel, and some crops cover the whole picture.
	if least := len(a.pictures) - 6; epochs < least || seeds < least || len(looks) < least {
		t.Errorf("of %d samples, %d look different in another epoch, %d with another seed, %d from one another", len(a.pictures), epochs, seeds, len(looks))
	}
}

// TestReadAheadEpoch: without padding, a sample that a shard reads ahead from the next
// range looks as it does in that range's epoch.
func TestReadAheadEpoch(t *testing.T) {
	skipWithoutFUSE(t)
	a := smallAlbum(t)
	l := look{mode: "random-resized-crop", flip: 0.5, settings: settings{batch: 4, shards: 3, shuffle: true, seed: 9, unpadded: true, height: albumHeight, width: albumWidth}}
	m, o := mountBatchfs(t, a.dir, l.flags()...), newOracle(t, a.dir, l.settings)
	ahead := 0
	for epoch := range 2 {
		for s := range l.shards {
			for batch := range o.plan.Batches(s, epoch) {
				slots, _ := o.plan.Batch(s, epoch, batch, nil)
				if !slices.ContainsFunc(slots, func(s shard.Slot) bool { return s.Epoch != epoch }) {
					continue
				}
				ahead++
				b := m.show(t, l, s, epoch, batch)
				a.documented(t, l, o, b)
				a.near(t, l, o, b)
			}
		}
	}
	if ahead == 0 {
		t.Error("nothing was read ahead")
	}
}
