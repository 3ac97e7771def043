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
	"sync/atomic"
	"testing"

	"github.com/batchfs/batchfs/cache"
	"github.com/batchfs/batchfs/dataset"
	"github.com/batchfs/batchfs/internal/fakestore"
	"github.com/batchfs/batchfs/layout"
	"github.com/batchfs/batchfs/store"
	"github.com/batchfs/batchfs/tier"
)

const (
	farSamples, farSide = 192, 64
	farBytes            = farSide*farSide*3 + 13 // of a file
)

// A farDataset is one of images in a store.
type farDataset struct {
	dir    string // of the files
	index  string
	cache  string
	server string
	reads  atomic.Int64 // of parts of objects
}

func newFar(t *testing.T) *farDataset {
	t.Helper()
	root := t.TempDir()
	d := &farDataset{dir: filepath.Join(root, "data", "d"), index: t.TempDir(), cache: t.TempDir()}
	if err := errors.Join(os.Mkdir(filepath.Dir(d.dir), 0o755), os.Rename(evenDir(t, farSamples, farSide), d.dir)); err != nil {
		t.Fatal(err)
	}
	s := httptest.NewServer(&fakestore.Server{Dir: root, Before: func(_ http.ResponseWriter, r *http.Request) bool {
		if r.Method == http.MethodGet && r.Header.Get("Range") != "" {
			d.reads.Add(1)
		}
		return false
	}})
	t.Cleanup(s.Close)
	d.server = s.URL
	return d
}

// open opens it with room for a share of its samples on the disk.
func (d *farDataset) open(t *testing.T, share float64) *dataset.Dataset {
	t.Helper()
	ds, err := dataset.Open(t.Context(), "s3://data/d", dataset.Options{
		Prober: Probe, CacheDir: d.index, Store: store.Options{Endpoint: d.server, Anonymous: true, Tries: 1},
		Storage: dataset.Storage{LocalCache: dataset.LocalCache{Dir: d.cache, Size: int64(share * farSamples * float64(tier.Cost(farBytes))), Samples: true}},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ds.Close() })
	return ds
}

// engine starts an engine with room for a share of the samples in memory. No batch is made before it is read.
func (d *farDataset) engine(t *testing.T, ds *dataset.Dataset, memory float64, change ...func(*Options)) *Engine {
	t.Helper()
	o := testOptions()
	caching(cache.Constant, int64(memory*farSamples*farBytes))(&o)
	o.PrefetchDepth, o.Epochs, o.MemoryLimit = 0, 20, 256<<20
	for _, f := range change {
		f(&o)
	}
	e, err := New(ds, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	return e
}

// epoch reads an epoch and returns how many samples of each batch came from the store.
func (d *farDataset) epoch(t *testing.T, e *Engine, epoch int) (fetched []int64, all [][]byte) {
	t.Helper()
	e.keeper.settled()
	for batch := range e.catalog.Plan.Batches(0, epoch) {
		for s := range e.catalog.Options.Shards {
			before := d.reads.Load()
			all = append(all, read(t, e, Key{s, epoch, batch}, layout.NHWCForm))
			fetched = append(fetched, d.reads.Load()-before)
			e.ds.Settle()
		}
	}
	return fetched, all
}

// checkEpoch compares what was counted of an epoch with the shares that its keeper plans.
func checkEpoch(t *testing.T, what string, e *Engine, epoch int, fetched []int64) {
	t.Helper()
	all := e.Stats().Epochs
	s := all[slices.IndexFunc(all, func(s EpochStats) bool { return s.Epoch == epoch })]
	size := float64(e.opts.BatchSize)
	for _, d := range []struct {
		Distribution
		share float64
	}{{s.HitsPerBatch, e.keeper.shares.memory}, {s.LocalPerBatch, e.keeper.shares.disk}} {
		if lo, hi := math.Floor(size*d.share), math.Ceil(size*d.share); float64(d.Min) < lo || float64(d.Max) > hi {
			t.Errorf("%s, epoch %d: batches have %d to %d hits, want %v to %v: %+v", what, epoch, d.Min, d.Max, lo, hi, s)
		}
	}
	rest := size * (1 - e.keeper.shares.memory - e.keeper.shares.disk)
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

// TestLocalHitsAreTheSameForEachBatch: from the second epoch on, every batch finds as many samples in memory, on the
// disk and in the store as any other, and shows the same pixels.
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
		if s := e.keeper.shares; s.disk < c.disk-0.1 || s.disk > c.disk || c.memory > 0 != (s.memory > 0.1) {
			t.Fatalf("%s: shares are %+v", what, s)
		}
		for epoch := range 5 {
			fetched, got := d.epoch(t, e, epoch)
			if epoch > 0 {
				checkEpoch(t, what, e, epoch, fetched)
			}
			if _, want := d.epoch(t, plain, epoch); !slices.EqualFunc(got, want, bytes.Equal) {
				t.Fatalf("%s: epoch %d has other pixels", what, epoch)
			}
		}
	}
}
