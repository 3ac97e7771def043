package engine

import (
	"bytes"
	"math"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/batchfs/batchfs/cache"
	"github.com/batchfs/batchfs/internal/testkit"
	"github.com/batchfs/batchfs/layout"
	"github.com/batchfs/batchfs/shard"
)

// together reads an epoch with engines for one shard each, batch by batch.
func (d *farDataset) together(t *testing.T, mounts []*Engine, epoch int) (all [][]byte) {
	t.Helper()
	for _, e := range mounts {
		e.caches.planner.planOf(epoch)
		e.caches.planner.settled()
	}
	for batch := range mounts[0].catalog.Plan.Batches(0, epoch) {
		for s, e := range mounts {
			all = append(all, read(t, e, Key{Shard: s, Epoch: epoch, Batch: batch}, layout.NHWCForm))
			e.catalog.Dataset.Settle()
			if l := e.Stats().Storage.Local; l.Used > l.Limit {
				t.Errorf("epoch %d: %+v", epoch, *l)
			}
		}
	}
	return all
}

// age makes everything on the disk look as if it was last used an hour ago.
func (d *farDataset) age(t *testing.T) {
	t.Helper()
	then := time.Now().Add(-time.Hour)
	for _, name := range d.files(t) {
		testkit.Must(t, os.Chtimes(name, then, then))
	}
}

// TestMountsShareTheLocalCache: mounts of different shards, which keep different samples, each get
// their share of the room. Soon after one has come or gone, every batch of every mount finds
// equally many samples on the disk again, and at no time do they take more than there is room for.
func TestMountsShareTheLocalCache(t *testing.T) {
	const room = 0.3 // room for all mounts
	for _, n := range []int{2, 4} {
		d := newFar(t)
		one := func(s int) func(*Options) {
			return func(o *Options) {
				o.Shards, o.LocalFrom, o.LocalTo, o.Partition, o.Nodes = n, s, s+1, shard.Local, n
			}
		}
		plain := start(t, d.dir, caching(cache.None, 0), one(0), func(o *Options) { o.LocalFrom, o.LocalTo, o.Epochs = 0, 0, 20 })
		var mounts []*Engine
		epoch := 0
		join := func(s int) {
			mounts = append(mounts, d.engine(t, d.open(t, room), 0, one(s)))
		}
		settled := func(what string, room float64) {
			t.Helper()
			for range 3 { // the first pass reads by the old plan, and finds samples that are not on the disk yet
				d.together(t, mounts, epoch)
				epoch++
			}
			missed := make([]int64, len(mounts))
			for i, e := range mounts {
				missed[i] = e.Stats().Storage.Local.NotKept
			}
			got := d.together(t, mounts, epoch)
			for i, e := range mounts {
				p, _ := e.caches.planner.planOf(epoch)
				per, local := epochStats(e, epoch).LocalPerBatch, e.Stats().Storage.Local
				share := float64(p.disk.Count()) * float64(n) / farSamples
				if share > room || share < room-0.15 || float64(per.Min) < math.Floor(share*16)-1 || per.Max > per.Min+1 {
					t.Errorf("%d mounts, %s, mount %d: batches find %d to %d samples on the disk, the plan keeps %v, there is room for %v", n, what, i, per.Min, per.Max, share, room)
				}
				if local.NotKept != missed[i] {
					t.Errorf("%d mounts, %s, mount %d: %+v", n, what, i, *local)
				}
			}
			_, want := d.epoch(t, plain, epoch)
			if len(mounts) == n && !slices.EqualFunc(got, want, bytes.Equal) {
				t.Errorf("%d mounts, %s: other pixels", n, what)
			}
			epoch++
		}
		for s := range n - 1 {
			join(s)
		}
		settled("all but one", room*float64(n)/float64(n-1))
		join(n - 1)
		settled("all", room)
		last := mounts[n-1]
		mounts = mounts[:n-1]
		last.Close()
		last.catalog.Dataset.Close()
		d.age(t)
		settled("one has gone", room*float64(n)/float64(n-1))
	}
}

// TestSmallDatasetsInStores: a cache for half of a small dataset in a store keeps most of what it
// has room for, however many shards there are, and however many batches are made at once, as they
// are for a store. If none are made ahead, which would be several epochs here, there is room for
// that, and every batch finds as many samples in it as any other.
func TestSmallDatasetsInStores(t *testing.T) {
	d := newFar(t)
	for _, shards := range []int{1, 2, 8} {
		for _, ahead := range []bool{false, true} {
			e := d.engine(t, d.open(t, 0), 0, func(o *Options) {
				o.BatchSize, o.Shards, o.CPUs = 8, shards, 2
				o.CachePolicy, o.CacheSize = cache.Constant, farSamples/2*cache.Cost(farBytes)+64<<10
				o.Loads = StoreLoads(2, o.MemoryLimit)
				o.BatchWorkers = o.DefaultBatchWorkers()
				if ahead {
					o.PrefetchDepth = o.DefaultDepth()
				}
			})
			if _, share := e.Budget().cacheSize(); share < 0.4 {
				t.Errorf("%d shards, ahead %t: a cache for half of the dataset keeps %v, as %d samples may be in flight", shards, ahead, share, e.opts.InFlight())
			}
			for epoch := 0; epoch < 4 && !ahead; epoch++ {
				d.epoch(t, e, epoch)
				s := epochStats(e, epoch)
				if uneven := s.HitsPerBatch.Max - s.HitsPerBatch.Min; s.NotKept != 0 || epoch > 0 && (uneven > 1 || s.Hits < farSamples*4/10) {
					t.Errorf("%d shards: %+v", shards, s)
				}
			}
		}
	}
}
