package engine

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/batchfs/batchfs/cache"
	"github.com/batchfs/batchfs/decode/resample"
	"github.com/batchfs/batchfs/internal/dataset"
	"github.com/batchfs/batchfs/internal/fakestore"
	"github.com/batchfs/batchfs/internal/sample"
	"github.com/batchfs/batchfs/internal/store"
	"github.com/batchfs/batchfs/internal/testkit"
	"github.com/batchfs/batchfs/internal/tier"
	"github.com/batchfs/batchfs/layout"
)

const (
	farSamples, farSide = 192, 64
	farBytes            = farSide*farSide*3 + 13 // of a file
)

// A farDataset is a dataset of images in a store.
type farDataset struct {
	dir    string // of the files
	bytes  int64  // of one file
	index  string
	cache  string
	server string
	url    string // of the dataset, or the path of a list

	away atomic.Int64 // answers to go until the store is back

	mu   sync.Mutex
	read map[string]bool // objects of which parts were sent; a slow request is sent twice
}

func (d *farDataset) reads() int64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	return int64(len(d.read))
}

func newFar(t *testing.T) *farDataset {
	t.Helper()
	return newFarOf(t, evenDir(t, farSamples, farSide), farBytes)
}

// newFarOf puts the files of a directory into a store. mean is their average size in bytes.
func newFarOf(t *testing.T, dir string, mean int64) *farDataset {
	t.Helper()
	root := t.TempDir()
	d := &farDataset{dir: filepath.Join(root, "data", "d"), bytes: mean, index: t.TempDir(), cache: t.TempDir(), url: "s3://data/d", read: map[string]bool{}}
	testkit.Must(t, errors.Join(os.Mkdir(filepath.Dir(d.dir), 0o755), os.Rename(dir, d.dir)))
	s := httptest.NewServer(&fakestore.Server{Dir: root, Before: func(w http.ResponseWriter, r *http.Request) bool {
		if d.away.Load() > 0 {
			d.away.Add(-1)
			w.WriteHeader(http.StatusInternalServerError)
			return true
		}
		if r.Method == http.MethodGet && r.Header.Get("Range") != "" {
			d.mu.Lock()
			defer d.mu.Unlock()
			d.read[r.URL.Path] = true
		}
		return false
	}})
	t.Cleanup(s.Close)
	d.server = s.URL
	d.open(t, 0).Close() // the index is made without a local cache
	return d
}

func newFarJPEGs(t *testing.T) *farDataset {
	t.Helper()
	dir := written(t, farSamples, tinyJPEG)
	return newFarOf(t, dir, bytesIn(t, dir)/farSamples)
}

// open opens the dataset with room for a share of its samples on the disk.
func (d *farDataset) open(t *testing.T, share float64, change ...func(*store.Options)) *dataset.Dataset {
	t.Helper()
	local := dataset.LocalCache{Dir: d.cache, Size: int64(share * farSamples * float64(tier.Cost(d.bytes))), Samples: true}
	if share == 0 {
		local = dataset.LocalCache{}
	}
	of := store.Options{Endpoint: d.server, Anonymous: true, Wait: -1}
	for _, f := range change {
		f(&of)
	}
	ds, err := dataset.Open(t.Context(), d.url, dataset.Options{
		Prober: sample.Probe, CacheDir: d.index, Store: of, Storage: dataset.Storage{LocalCache: local},
	})
	testkit.Must(t, err)
	t.Cleanup(func() { ds.Close() })
	return ds
}

// list makes open open a list of datasets.
func (d *farDataset) list(t *testing.T, names ...string) {
	t.Helper()
	d.url = filepath.Join(t.TempDir(), "list.txt")
	writeFile(t, d.url, []byte(strings.Join(names, "\n")))
	d.open(t, 0).Close()
}

// engine starts an engine with room for a share of the samples in memory. No batch is made before
// it is read.
func (d *farDataset) engine(t *testing.T, ds *dataset.Dataset, memory float64, change ...func(*Options)) *Engine {
	t.Helper()
	o := testOptions()
	caching(cache.Constant, int64(memory*farSamples*float64(d.bytes)))(&o)
	o.PrefetchDepth, o.Epochs, o.MemoryLimit = 0, 20, 256<<20
	for _, f := range change {
		f(&o)
	}
	e, err := New(ds, o)
	testkit.Must(t, err)
	t.Cleanup(func() { e.Close() })
	return e
}

// epoch reads an epoch and returns how many samples of each batch came from the store.
func (d *farDataset) epoch(t *testing.T, e *Engine, epoch int) (fetched []int64, all [][]byte) {
	t.Helper()
	return d.batches(t, e, epoch, 0, e.catalog.Plan.Batches(0, epoch))
}

// batches reads a range of an epoch's batches.
func (d *farDataset) batches(t *testing.T, e *Engine, epoch, from, to int) (fetched []int64, all [][]byte) {
	t.Helper()
	d.mu.Lock()
	d.read = map[string]bool{}
	d.mu.Unlock()
	if e.caches.planner != nil {
		e.caches.planner.planOf(epoch)
		e.caches.planner.settled()
	}
	for batch := from; batch < to; batch++ {
		for s := range e.catalog.Options.Shards {
			before := d.reads()
			all = append(all, read(t, e, Key{Shard: s, Epoch: epoch, Batch: batch}, layout.NHWCForm))
			fetched = append(fetched, d.reads()-before)
			e.catalog.Dataset.Settle()
		}
	}
	return fetched, all
}

// files returns the files of the samples on the disk.
func (d *farDataset) files(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(d.cache, "*", "??", "*"))
	testkit.Must(t, err)
	return files
}

func epochStats(e *Engine, epoch int) EpochStats {
	all := e.Stats().Epochs
	return all[slices.IndexFunc(all, func(s EpochStats) bool { return s.Epoch == epoch })]
}

// checkEpoch compares the counts of an epoch that has just been read with what its planner planned.
func (d *farDataset) checkEpoch(t *testing.T, what string, e *Engine, epoch int, fetched []int64) {
	t.Helper()
	s, size := epochStats(e, epoch), float64(e.opts.BatchSize)
	if p, _ := e.caches.planner.planOf(epoch); p.disk.Count() != int64(len(d.files(t))) {
		t.Errorf("%s, epoch %d: %d samples are on the disk, want %d", what, epoch, len(d.files(t)), p.disk.Count())
	}
	for _, d := range []struct {
		Distribution
		share float64
	}{{s.HitsPerBatch, e.caches.planner.shares.memory}, {s.LocalPerBatch, e.caches.planner.shares.disk}} {
		if lo, hi := math.Floor(size*d.share), math.Ceil(size*d.share); float64(d.Min) < lo || float64(d.Max) > hi {
			t.Errorf("%s, epoch %d: batches have %d to %d hits, want %v to %v: %+v", what, epoch, d.Min, d.Max, lo, hi, s)
		}
	}
	rest := size * (1 - e.caches.planner.shares.memory - e.caches.planner.shares.disk)
	for i, n := range fetched {
		if float64(n) <= rest-2 || float64(n) >= rest+2 {
			t.Errorf("%s, epoch %d: batch %d fetched %d samples, want about %.1f", what, epoch, i, n, rest)
		}
	}
	if s.Hits+s.Misses != farSamples || s.NotKept != 0 || s.Unplanned != 0 {
		t.Errorf("%s: %+v", what, s)
	}
	if l := e.Stats().Storage.Local; l.NotKept != 0 || l.Damaged != 0 || l.Used > l.Limit {
		t.Errorf("%s: %+v", what, *l)
	}
}

// checkPixels compares an epoch with that of an engine without caches.
func (d *farDataset) checkPixels(t *testing.T, what string, plain *Engine, epoch int, got [][]byte) {
	t.Helper()
	if _, want := d.epoch(t, plain, epoch); !slices.EqualFunc(got, want, bytes.Equal) {
		t.Fatalf("%s: epoch %d has other pixels", what, epoch)
	}
}

// TestLocalHitsAreTheSameForEachBatch: from the second epoch on, every batch finds as many samples
// in memory, on the disk and in the store as any other, and shows the same pixels.
func TestLocalHitsAreTheSameForEachBatch(t *testing.T) {
	for _, c := range []struct {
		memory, disk float64
		shards       int
	}{{0.25, 0.5, 1}, {0.25, 0.5, 3}, {0, 0.5, 1}} {
		what := fmt.Sprintf("%v in memory, %v on disk, %d shards", c.memory, c.disk, c.shards)
		d := newFar(t)
		shards := func(o *Options) { o.Shards = c.shards }
		plain := start(t, d.dir, caching(cache.None, 0), shards)
		e := d.engine(t, d.open(t, c.disk), c.memory, shards)
		if s := e.caches.planner.shares; s.disk < c.disk-0.1 || s.disk > c.disk || c.memory > 0 != (s.memory > 0.1) {
			t.Fatalf("%s: shares are %+v", what, s)
		}
		for epoch := range 5 {
			fetched, got := d.epoch(t, e, epoch)
			if epoch > 0 {
				d.checkEpoch(t, what, e, epoch, fetched)
			}
			d.checkPixels(t, what, plain, epoch, got)
		}
	}
}

// TestPackedBesideALocalCache: memory packs the samples that it keeps. Still, every batch finds as
// many samples in memory and on the disk as any other, and shows the same pixels. If the disk keeps
// everything that memory does not, nothing is packed.
func TestPackedBesideALocalCache(t *testing.T) {
	for _, c := range []struct {
		memory, disk float64
		shards       int
		packs        bool
	}{{0.25, 0.4, 1, true}, {0.5, 0.2, 3, true}, {0.4, 0.45, 1, true}, {0.5, 0.7, 1, false}} {
		what := fmt.Sprintf("%v in memory, %v on disk, %d shards", c.memory, c.disk, c.shards)
		d := newFarJPEGs(t)
		shards := func(o *Options) { o.Shards, o.CacheForm = c.shards, FormPacked }
		plain := start(t, d.dir, caching(cache.None, 0), func(o *Options) { o.Shards, o.Epochs = c.shards, 20 })
		e := d.engine(t, d.open(t, c.disk), c.memory, shards)
		for epoch := range 6 {
			_, got := d.epoch(t, e, epoch)
			d.checkPixels(t, what, plain, epoch, got)
			s := epochStats(e, epoch)
			if p, _ := e.caches.planner.planOf(epoch); p.disk.Count() != int64(len(d.files(t))) {
				t.Errorf("%s, epoch %d: %d samples are on the disk, want %d", what, epoch, len(d.files(t)), p.disk.Count())
			}
			share := e.caches.planner.shares.disk
			if share == 1 {
				share = 1 - float64(s.Hits)/farSamples
			}
			least := math.Floor(share * float64(e.opts.BatchSize))
			if m, l := s.HitsPerBatch, s.LocalPerBatch; epoch > 0 && (m.Max > m.Min+1 || l.Max > l.Min+1 || float64(l.Min) < least || m.Min == 0) {
				t.Errorf("%s, epoch %d: batches have %d to %d hits in memory, %d to %d on the disk, want %v", what, epoch, m.Min, m.Max, l.Min, l.Max, least)
			}
			if s.NotKept != 0 || s.Unplanned != 0 {
				t.Errorf("%s: %+v", what, s)
			}
		}
		if s := e.Stats().Forms; s.Samples > 0 != c.packs || s.Drawn > 0 != c.packs {
			t.Errorf("%s: %+v", what, s)
		}
	}
}

// TestPackedOnDisk: a disk with room for more than all files keeps as many packed samples as there
// is room for, and batches show the same pixels of them: of crops, after a restart, and after
// everything on the disk was damaged.
func TestPackedOnDisk(t *testing.T) {
	for _, c := range []struct{ memory, disk, least float64 }{{0, 4, 1}, {0.25, 4, 1}, {0, 2, 0.2}} {
		what := fmt.Sprintf("%v in memory, %v on disk", c.memory, c.disk)
		d := newFarJPEGs(t)
		crops := func(o *Options) {
			o.CacheForm, o.Transform.Mode, o.Transform.CropRatio = FormPacked, resample.RandomResizedCrop, resample.DefaultCropRatio
			o.Transform.Height, o.Transform.Width, o.Transform.CropArea = 32, 32, [2]float64{0.1, 0.5}
		}
		plain := start(t, d.dir, caching(cache.None, 0), crops, func(o *Options) { o.CacheForm, o.Epochs = FormEncoded, 20 })
		check := func(e *Engine, epoch int) DiskFormStats {
			t.Helper()
			before := e.Stats().Forms.Disk.Read
			_, got := d.epoch(t, e, epoch)
			d.checkPixels(t, what, plain, epoch, got)
			if l := e.Stats().Storage.Local; l.Used > l.Limit || l.NotKept > 0 {
				t.Errorf("%s: %+v", what, l)
			}
			s := *e.Stats().Forms.Disk
			s.Read -= before
			return s
		}
		far := d.open(t, c.disk)
		e := d.engine(t, far, c.memory, crops)
		check(e, 0)
		s := check(e, 1)
		if kept := float64(s.Kept); kept < c.least*(1-c.memory)*farSamples/2 || (s.Share < 1) != (c.least < 1) || s.Read == 0 {
			t.Errorf("%s: %+v", what, s)
		}
		e.Close()
		far.Close()

		far = d.open(t, c.disk)
		e = d.engine(t, far, c.memory, crops)
		if s := check(e, 2); s.Read == 0 {
			t.Errorf("%s: after a restart, %+v", what, s)
		}
		for _, name := range d.files(t) {
			damageAt(t, name, 0.5)
		}
		if s := check(e, 3); s.Read > 0 || e.Stats().Storage.Local.Damaged == 0 {
			t.Errorf("%s: after damage, %+v", what, s)
		}
		if s := check(e, 4); s.Read == 0 {
			t.Errorf("%s: an epoch after damage, %+v", what, s)
		}
	}
}

// TestLocalHitsOfLists: a dataset that a list names twice is in the local cache as if it were two.
// Datasets of the list that are on this machine take no room in it; every batch finds equally many
// of the other samples there.
func TestLocalHitsOfLists(t *testing.T) {
	for _, other := range []string{"s3://data/d", evenDir(t, farSamples/2, farSide)} {
		d := newFar(t)
		for i := farSamples / 2; i < farSamples; i++ {
			testkit.Must(t, os.Remove(filepath.Join(d.dir, fmt.Sprintf("%04d.ppm", i))))
		}
		d.list(t, other, "s3://data/d")
		e := d.engine(t, d.open(t, 0.25), 0.125)
		if s := e.caches.planner.shares; s.disk < 0.2 || s.disk > 0.25 {
			t.Errorf("%s: shares are %+v", other, s)
		}
		d.epoch(t, e, 0)
		for epoch := 1; epoch < 4; epoch++ {
			d.epoch(t, e, epoch)
			d.checkEpoch(t, other, e, epoch, nil) // an object may be two samples, so the number of fetches says little
		}
	}
}

// TestLocalCacheAcrossRestarts: a mount that continues where another one ended finds as much on the
// disk. One that starts elsewhere does so after an epoch.
func TestLocalCacheAcrossRestarts(t *testing.T) {
	d := newFar(t)
	ds := d.open(t, 0.5)
	e := d.engine(t, ds, 0.25)
	d.epoch(t, e, 0)
	half := e.catalog.Plan.Batches(0, 1) / 2
	d.batches(t, e, 1, 0, half)
	e.Close()
	ds.Close()

	ds = d.open(t, 0.5)
	e = d.engine(t, ds, 0.25)
	d.batches(t, e, 1, half, 2*half)
	d.epoch(t, e, 2)
	size := float64(e.opts.BatchSize) * e.caches.planner.shares.disk
	for epoch := 1; epoch <= 2; epoch++ {
		if n := epochStats(e, epoch).LocalPerBatch; float64(n.Min) < math.Floor(size) || float64(n.Max) > math.Ceil(size) {
			t.Errorf("epoch %d: %+v hits on the disk, want %v", epoch, n, size)
		}
	}
	fetched, _ := d.epoch(t, e, 3)
	d.checkEpoch(t, "after a restart", e, 3, fetched)
	e.Close()
	ds.Close()

	e = d.engine(t, d.open(t, 0.5), 0.25, func(o *Options) { o.Seed = 7 })
	d.epoch(t, e, 0)
	fetched, _ = d.epoch(t, e, 1)
	d.checkEpoch(t, "in another order", e, 1, fetched)
}

// TestLocalCacheOfEverything: if everything fits, no plan is needed.
func TestLocalCacheOfEverything(t *testing.T) {
	d := newFar(t)
	ds := d.open(t, 1)
	e := d.engine(t, ds, 0.25)
	if ds.LocalSamples() != nil || e.caches.local != nil || e.caches.planner.shares.local() {
		t.Error("it is planned")
	}
	d.epoch(t, e, 0)
	if fetched, _ := d.epoch(t, e, 1); slices.Max(fetched) > 0 {
		t.Errorf("fetched again: %v", fetched)
	}
	if s := epochStats(e, 1); s.LocalHits != 0 || s.Hits == 0 {
		t.Errorf("%+v", s)
	}
}

// TestLocalCacheOnAFullDisk: samples for which there is no room come from the store.
func TestLocalCacheOnAFullDisk(t *testing.T) {
	d := newFar(t)
	if err := unix.Mount("tmpfs", d.cache, "tmpfs", 0, "size=300k,mode=0700"); err != nil {
		t.Skip("SKIPPED: cannot mount a tmpfs:", err)
	}
	t.Cleanup(func() { _ = unix.Unmount(d.cache, unix.MNT_DETACH) })
	e, plain := d.engine(t, d.open(t, 0.5), 0.25), start(t, d.dir, caching(cache.None, 0))
	for epoch := range 3 {
		_, got := d.epoch(t, e, epoch)
		if _, want := d.epoch(t, plain, epoch); !slices.EqualFunc(got, want, bytes.Equal) {
			t.Fatalf("epoch %d has other pixels", epoch)
		}
	}
	if s := e.Stats().Storage.Local; s.NotKept == 0 || s.Hits == 0 {
		t.Errorf("%+v", *s)
	}
}

// TestSamplesWaitForOneEpoch: a reader leaves samples on the disk that wait for readers of the
// epochs around its own.
func TestSamplesWaitForOneEpoch(t *testing.T) {
	for _, c := range []struct {
		waits, reads int // epochs; waits is below 0 if it is not known
		disk         bool
		mine         bool
		next         int // the epoch that it waits for afterwards, below 0 if it is not known
	}{
		{-1, 300, true, true, 301}, {-1, 300, false, true, -1},
		{300, 300, true, true, 301}, {300, 300, false, true, -1},
		{301, 300, true, false, 301}, {301, 300, false, false, 301},
		{302, 300, true, false, 302}, {302, 300, false, false, 302},
		{299, 300, true, false, 301}, {299, 300, false, false, 299},
		{290, 300, false, true, -1}, {310, 300, false, true, -1}, {310, 300, true, true, 301},
		{255, 254, false, false, 255}, {254, 255, false, false, 254}, {0, 0, false, true, -1}, {254, 254, true, true, 255},
	} {
		label := func(epoch int) uint8 { return uint8((epoch+epochsKnown)%epochsKnown + 1) }
		l := &localCache{waits: make([]uint8, 3)}
		if c.waits >= 0 {
			l.waits[1] = label(c.waits)
		}
		want := uint8(0)
		if c.next >= 0 {
			want = label(c.next)
		}
		if mine := l.mark(c.reads, 1, c.disk); mine != c.mine || l.waits[1] != want || l.has(1) != (want > 0) || l.has(0) {
			t.Errorf("%+v: mine is %t, and it waits for %d, not %d", c, mine, l.waits[1], want)
		}
	}
}

// TestGoneFromTheStore: a batch that was made ahead without a sample that is gone from its store is
// not made again when it is opened.
func TestGoneFromTheStore(t *testing.T) {
	d := newFar(t)
	ds := d.open(t, 0)
	e := d.engine(t, ds, 0, func(o *Options) { o.OnError, o.PrefetchDepth, o.Epochs, o.CachePolicy = Zero, 2, 1, cache.None })
	for id := 1; id < ds.Len(); id += 4 {
		testkit.Must(t, os.Remove(filepath.Join(d.dir, ds.Path(id))))
	}
	madeOnceEach(t, e)
}
