package engine

import (
	"testing"

	"github.com/batchfs/batchfs/cache"
)

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
