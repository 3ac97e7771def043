package integration

import (
	"math"
	"os"
	"runtime"
	"slices"
	"strconv"
	"testing"

	"github.com/batchfs/batchfs/cache"
	"github.com/batchfs/batchfs/internal/catalog"
	"github.com/batchfs/batchfs/internal/engine"
	"github.com/batchfs/batchfs/internal/keep"
	"github.com/batchfs/batchfs/shard"
)

// A lane is a mount whose shards are read in lockstep, with the default policy and a cache
// for some share of the tiles. Without prefetching, the contents of the cache follow from
// the plan alone.
type lane struct {
	*mounted
	settings
	n     int
	limit int64
	ratio float64 // what package cache guarantees to hold
	plan  *shard.Plan
}

const laneSide = 32

// newLane mounts n tiles with a cache for kept of them, plus those that may enter before others
// have left.
func newLane(t testing.TB, n, kept int, s settings, flags ...string) *lane {
	t.Helper()
	dir := tiles(t, n, laneSide)
	size := int64(len(tileFile(0, laneSide)))
	flying := inFlight(s, flags)
	l := &lane{settings: s, n: n}
	l.limit = roomFor(t, "constant", int64(min(kept+flying, n))*cache.Cost(size), int64(n))
	l.ratio = cache.Ratio(l.limit, int64(n), 1, func(int64) (int64, int) { return size, 0 }, flying)
	if got := int(math.Round(l.ratio * float64(n))); got != kept {
		t.Fatalf("a cache of %d bytes is promised to hold %d tiles, not %d", l.limit, got, kept)
	}
	l.plan = newOracle(t, dir, s).plan
	flags = append(flags, "--prefetch-queue-depth", "0", "--batch-workers", "1")
	l.mounted = mountBatchfs(t, dir, s.flags(cacheFlags("constant", l.limit, flags...)...)...)
	return l
}

// inFlight is the number of extra samples a cache needs room for if one batch is made at a
// time, under flags with a number of --workers.
func inFlight(s settings, flags []string) int {
	o := engine.Options{Options: catalog.Options{Config: shard.Config{BatchSize: s.batch, Shards: s.shards}}, BatchWorkers: 1, Workers: runtime.NumCPU()}
	if i := slices.Index(flags, "--workers"); i >= 0 {
		o.Workers, _ = strconv.Atoi(flags[i+1])
	}
	return o.InFlight()
}

// read reads an epoch in lockstep and checks the cache after every step.
func (l *lane) read(t testing.TB, epoch int) epochDoc {
	t.Helper()
	for _, step := range l.lockStep(t, l.shards, epoch) {
		for _, file := range step {
			if _, err := os.ReadFile(file); err != nil {
				t.Fatal(err)
			}
		}
		l.stats(t).within(t, l.limit)
	}
	d := l.stats(t)
	d.leftWithin(t, l.limit)
	return d.epoch(epoch)
}

// planned is the number of samples the plan keeps from an epoch for the next.
func (l *lane) planned(t testing.TB, epoch int) int64 {
	t.Helper()
	k, err := keep.Choose(l.plan, epoch, keep.Config{Ratio: l.ratio}, nil)
	check(t, err)
	return k.Count()
}

// TestCacheHitsEvenly: from the second epoch on, all full batches have the same number of
// hits, to within one, and exactly if ratio times batch size is whole. The cache keeps what
// the plan keeps, and every kept sample is hit.
func TestCacheHitsEvenly(t *testing.T) {
	for _, c := range []struct {
		name     string
		n, kept  int
		spread   int64 // over the hits of full batches
		settings settings
	}{
		{"a half", 128, 64, 0, settings{batch: 8, shards: 2, shuffle: true, seed: 3}},
		{"some", 124, 37, 1, settings{batch: 8, shards: 2, shuffle: true, seed: 5}},
		{"in order", 128, 50, 1, settings{batch: 8, shards: 2, seed: 6}},
		{"all", 124, 124, 0, settings{batch: 8, shards: 3, shuffle: true, seed: 7}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			l := newLane(t, c.n, c.kept, c.settings, oneByOne...)
			size := int64(len(tileFile(0, laneSide)))
			due := int64(0) // from the previous epoch
			for epoch := range 4 {
				d := l.read(t, epoch)
				if d.Hits != due || d.Misses != int64(c.n)-due || d.StorageBytes != d.Misses*size {
					t.Errorf("epoch %d: %d hits and %d misses of %d bytes; the plan kept %d of %d", epoch, d.Hits, d.Misses, d.StorageBytes, due, c.n)
				}
				if h := d.HitsPerBatch; h.Max-h.Min > c.spread || c.spread == 0 && h.StdDev != 0 {
					t.Errorf("epoch %d: hits per batch are %+v", epoch, h)
				}
				if mean, least := d.HitsPerBatch.Mean, math.Floor(l.ratio*float64(c.settings.batch)); epoch > 0 && (mean < least || mean > least+1) {
					t.Errorf("epoch %d: a batch hits %g times on average, %g were promised", epoch, mean, l.ratio*float64(c.settings.batch))
				}
				due = l.planned(t, epoch)
				if d.Kept != due || d.KeptBytes != due*size || d.NotKept != 0 || math.Abs(float64(due)-l.ratio*float64(c.n)) >= 1 {
					t.Errorf("epoch %d kept %d samples of %d bytes, and had no room for %d; the plan kept %d, of %g", epoch, d.Kept, d.KeptBytes, d.NotKept, due, l.ratio*float64(c.n))
				}
			}
		})
	}
}

// oneByOne makes a batch's samples enter and leave the cache in order.
var oneByOne = []string{"--workers", "1", "--loads", "1"}
