package engine

import (
	"bytes"
	"math"
	"path/filepath"
	"testing"
	"time"

	"github.com/batchfs/batchfs/cache"
	"github.com/batchfs/batchfs/decode"
	"github.com/batchfs/batchfs/decode/resample"
	"github.com/batchfs/batchfs/internal/gen"
	"github.com/batchfs/batchfs/internal/testkit"
	"github.com/batchfs/batchfs/layout"
)

// packingAll keeps packed samples in a cache of size bytes.
func packingAll(size int64) func(*Options) {
	return func(o *Options) {
		caching(cache.Constant, size)(o)
		o.CacheForm = FormPacked
	}
}

// TestFormsMakeTheSameBytes: for every kind of image, whole and cropped, at reduced scales too, in
// color and gray, no byte depends on the form in which a sample waited for its reader.
func TestFormsMakeTheSameBytes(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "mixed")
	testkit.Must(t, gen.Write(t.Context(), gen.Options{Dir: dir, Images: 120, Kind: gen.Mixed, Seed: 3}))
	crops := func(o *Options) {
		o.Transform.Mode, o.Transform.CropArea, o.Transform.CropRatio = resample.RandomResizedCrop, [2]float64{0.5, 1}, resample.DefaultCropRatio
		o.Transform.Height, o.Transform.Width = 16, 20
	}
	for name, change := range map[string]func(*Options){
		"whole":     func(*Options) {},
		"crops":     crops,
		"gray":      func(o *Options) { crops(o); o.Decoding.Color = decode.Gray },
		"as stored": func(o *Options) { o.Decoding.IgnoreOrientation = true },
	} {
		want := readEpochs(t, start(t, dir, caching(cache.None, 0), change), 0, 4)
		// No batch of the next epoch is made before this one ends, and with it the wait for the
		// next plan: what is read before there is one is not packed.
		e := start(t, dir, packingAll(64<<20), change, func(o *Options) { o.PrefetchDepth = 0 })
		e.caches.rates.waited(time.Hour) // so that there is time to pack, however busy the machine is
		got := readEpochs(t, e, 0, 4)
		for i := range want {
			if !bytes.Equal(got[i], want[i]) {
				t.Fatalf("%s: batch %d has other bytes", name, i)
			}
		}
		if s := e.Stats(); s.Forms.Samples < 60 || s.Epochs[2].Hits < 60 {
			t.Errorf("%s: %d of 120 samples are packed, %d were hits", name, s.Forms.Samples, s.Epochs[2].Hits)
		}
	}
}

// TestHitsAreTheSameWherePacked: packed samples take more memory, but never that of a sample that
// the plan keeps.
func TestHitsAreTheSameWherePacked(t *testing.T) {
	const n = 192
	dir := written(t, n, tinyJPEG)
	size := bytesIn(t, dir)
	want := readEpochs(t, start(t, dir, caching(cache.None, 0), func(o *Options) { o.Epochs = 7 }), 0, 6)
	for _, form := range []Form{FormAuto, FormPacked} {
		for _, share := range []float64{0.3, 0.8, 1.1, 1.5} {
			limit := int64(share * float64(size))
			e := start(t, dir, packingAll(limit), func(o *Options) { o.CacheForm, o.PrefetchDepth, o.Epochs = form, 0, 7 })
			for i, batch := range readEpochs(t, e, 0, 6) {
				if !bytes.Equal(batch, want[i]) {
					t.Fatalf("%s, memory for %v: batch %d has other bytes", form, share, i)
				}
			}
			for _, s := range e.Stats().Epochs[1:6] {
				if d := s.HitsPerBatch; d.Max-d.Min > 1 || s.NotKept != 0 || s.Hits == 0 {
					t.Errorf("%s, memory for %v, epoch %d: hits %+v, %d were not kept", form, share, s.Epoch, d, s.NotKept)
				}
			}
			s := e.Stats()
			if s.Memory.Cache > limit || s.Forms.Samples == 0 || s.Forms.Reason == "" {
				t.Errorf("%s, memory for %v: %d of %d bytes, %+v", form, share, s.Memory.Cache, limit, s.Forms)
			}
		}
	}
}

// TestPackedHitsPerBatch: if some of the kept samples are packed, each batch has its share of
// packed hits, to within one.
func TestPackedHitsPerBatch(t *testing.T) {
	const n, size = 320, 32
	dir := written(t, n, smallJPEG)
	ds := openDataset(t, dir)
	e := start(t, dir, packingAll(bytesIn(t, dir)*6/10), func(o *Options) { o.CacheForm, o.PrefetchDepth, o.Epochs, o.BatchSize = FormAuto, 0, 9, size })
	e.caches.planner.settled()
	// This is as if much had been measured, of storage that is fast enough for some packed samples.
	const many = 1 << 30
	r, drawers := e.caches.rates, time.Duration(e.opts.drawers())
	r.mu.Lock()
	for w, took := range map[work]time.Duration{decoding: 800, unpacking: 200, packing: 900} {
		r.drawn[w] = clock{many, many * took}
	}
	r.read, r.starved = many, many*650*drawers
	r.mu.Unlock()
	e.caches.forms.readsFree = func() bool { return false }
	level := 0
	for epoch := range 6 {
		before := e.caches.planner.computed(epoch - 1)
		for batch := range e.catalog.Plan.Batches(0, epoch) {
			hits, packed := 0, 0
			slots, valid := e.catalog.Plan.Batch(0, epoch, batch, nil)
			for _, slot := range slots[:valid] {
				stamp := stampOf(ds.Stat(int(slot.ID)))
				if _, is, hit := e.caches.cache.Peek(slot.ID, stamp, nil, func(n int) []byte { return make([]byte, n) }); hit {
					hits++
					if is {
						packed++
					}
				}
			}
			share := before.mix.packed
			if epoch > 2 && math.Abs(float64(packed)-share*float64(hits)) >= 1 {
				t.Errorf("epoch %d, batch %d: %d of %d hits are packed, want %v of them", epoch, batch, packed, hits, share)
			}
			if share > 0.2 && share < 0.8 {
				level++
			}
			read(t, e, Key{Epoch: epoch, Batch: batch}, layout.NHWCForm)
		}
		e.caches.planner.settled()
	}
	if level < 3*n/size {
		t.Errorf("in %d batches only, some are packed and some not: %+v", level, e.Stats().Forms)
	}
}

// TestDamagedPackedSample: damage of a packed sample is not its file's fault, and the file is read
// again.
func TestDamagedPackedSample(t *testing.T) {
	dir := jpegDir(t, 16)
	want := readEpochs(t, start(t, dir, caching(cache.None, 0)), 0, 3)
	e := start(t, dir, packingAll(64<<20), func(o *Options) { o.PrefetchDepth = 0 })
	got := readEpochs(t, e, 0, 1)
	for id := range int64(16) {
		stamp := stampOf(e.catalog.Dataset.Stat(int(id)))
		data, packed, ok := e.caches.cache.Peek(id, stamp, nil, func(n int) []byte { return make([]byte, n) })
		if !packed || !ok {
			t.Fatalf("sample %d is not packed", id)
		}
		e.caches.cache.Drop(id)
		e.caches.cache.Put(0, id, stamp, make([]byte, stamp.Size))
		switch id % 3 {
		case 0:
			data[5] = 77
		case 1:
			data = data[:len(data)/2]
		default:
			clear(data[len(data)/2:])
		}
		if !e.caches.cache.Replace(id, stamp, data, math.MaxInt64) {
			t.Fatalf("sample %d was not replaced", id)
		}
	}
	got = append(got, readEpochs(t, e, 1, 3)...)
	for i := range want {
		if !bytes.Equal(got[i], want[i]) {
			t.Errorf("batch %d has other bytes", i)
		}
	}
	if n := e.Stats().Errors; n != 0 {
		t.Errorf("%d errors", n)
	}
}

// TestBestMix compares the rule with an epoch's time for every share that may be packed.
func TestBestMix(t *testing.T) {
	for _, drawers := range []float64{1, 2, 16} {
		for _, now := range []measured{
			{encoded: 418e-6, packed: 202e-6, larger: 1.09},
			{encoded: 12.4e-3, packed: 1.56e-3, larger: 1.4},
			{encoded: 1592e-6, packed: 279e-6, packing: 400e-6, larger: 1.02},
			{encoded: 400e-6, packed: 100e-6, larger: 3},
			{encoded: 400e-6, packed: 100e-6, larger: 0.9},
			{encoded: 400e-6, packed: 390e-6, larger: 1.1},
		} {
			for _, reading := range []float64{0, 30e-6, 160e-6, 650e-6, 16e-3} {
				for _, m := range []float64{0.1, 0.3, 0.7, 0.9, 1, 1.05, 1.3, 2} {
					now.known, now.reading = true, reading
					time := func(p float64) float64 {
						kept := min(1, m-(now.larger-1)*p)
						packed := now.packed + max(0, 1-m)*now.packing
						return max(reading*(1-kept), ((1-p)*now.encoded+p*packed)/drawers)
					}
					least := math.Inf(1)
					for p := 0.0; p <= min(1, m/now.larger); p += 1.0 / 512 {
						least = min(least, time(p))
					}
					x := best(now, m, drawers)
					p := x.packed * min(1, m/(1+(now.larger-1)*x.packed)) // as a share of the dataset
					if got := time(p); got > least/mostTime+1e-7 {
						t.Errorf("%+v, %v drawers, memory for %v: %+v takes %v, and %v is possible", now, drawers, m, x, got, least)
					}
				}
			}
		}
	}
}

// TestPackedShare: the disk has as many packed samples as there is room for, out of any range of
// samples.
func TestPackedShare(t *testing.T) {
	for _, share := range []float64{0, 1.0 / 32, 0.3, 0.77, 1} {
		d := &diskForms{share: share}
		for _, from := range []int64{0, 1_000_000, 1 << 31} {
			n := 0
			for id := range int64(1000) {
				if d.fits(from + id) {
					n++
				}
			}
			if math.Abs(float64(n)-1000*share) > 3 {
				t.Errorf("%d of 1000 samples from %d on are packed, want %v of them", n, from, share)
			}
		}
	}
}

// TestWhereNothingIsPacked: nothing is packed with another policy, or if packing is not asked for.
func TestWhereNothingIsPacked(t *testing.T) {
	dir := jpegDir(t, 8)
	for name, change := range map[string]func(*Options){
		"encoded": func(o *Options) { o.CacheForm = FormEncoded },
		"static":  func(o *Options) { o.CacheForm, o.CachePolicy = FormAuto, cache.Static },
		"none":    func(o *Options) { o.CacheForm, o.CachePolicy, o.CacheSize = FormAuto, cache.None, 0 },
	} {
		e := start(t, dir, packingAll(64<<20), change)
		readEpochs(t, e, 0, 2)
		if s := e.Stats().Forms; s.Samples != 0 || s.PackedShare != 0 {
			t.Errorf("%s: %+v", name, s)
		}
	}
	for name, change := range map[string]func(*Options){
		"static": func(o *Options) { o.CachePolicy = cache.Static },
		"a GPU":  func(o *Options) { o.DecodeOnDevice = true },
	} {
		o := testOptions()
		packingAll(64 << 20)(&o)
		change(&o)
		if _, err := New(openDataset(t, dir), o); err == nil {
			t.Errorf("packed samples with %s", name)
		}
	}
}

// TestPackedWhereMemoryIsShort: if other memory takes so much that the cache cannot have its limit,
// packed samples take nothing that the plan needs for samples as they are stored.
func TestPackedWhereMemoryIsShort(t *testing.T) {
	const n, limit = 192, 96 << 20
	dir := written(t, n, tinyJPEG)
	read := func(form Form, reserved int64) Stats {
		e := start(t, dir, packingAll(16<<20), func(o *Options) {
			o.CacheForm, o.MemoryLimit, o.PrefetchDepth, o.Epochs = form, limit, 0, 9
		})
		e.batches.memory.reserve(useRuntime, reserved)
		readEpochs(t, e, 0, 8)
		return e.Stats()
	}
	load, drawing := roomApart(limit)
	free := limit - read(FormEncoded, 0).Memory.Peak - load - drawing
	for _, form := range []Form{FormEncoded, FormAuto, FormPacked} {
		for _, s := range read(form, free-256<<10).Epochs[1:8] {
			if s.Hits != n || s.NotKept != 0 {
				t.Errorf("%s, epoch %d: %d of %d hits, %d were not kept", form, s.Epoch, s.Hits, n, s.NotKept)
			}
		}
	}
}
