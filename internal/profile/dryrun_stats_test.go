package profile

import (
	"testing"

	"github.com/batchfs/batchfs/internal/keep"
	"github.com/batchfs/batchfs/internal/testkit"
	"github.com/batchfs/batchfs/shard"
)

// TestStatsCountCosts: every full batch has its share of the dataset's raw and packed samples, and
// finds its share of all samples in the cache.
func TestStatsCountCosts(t *testing.T) {
	const n = 600
	for name, test := range map[string]struct {
		cost        [4]shard.Cost // of every fourth sample
		raw, packed Bounds
	}{
		"encoded": {},
		"raw":     {cost: [4]shard.Cost{shard.Raw}, raw: Bounds{5, 5, true}},
		"packed":  {cost: [4]shard.Cost{shard.Packed, shard.Packed}, packed: Bounds{10, 10, true}},
		"all":     {cost: [4]shard.Cost{shard.Raw, shard.Packed, shard.Packed}, raw: Bounds{5, 5, true}, packed: Bounds{10, 10, true}},
	} {
		costs := shard.NewCosts(n, func(id int64) shard.Cost { return test.cost[id%4] })
		plan, err := shard.New(shard.Config{Samples: n, Shards: 2, BatchSize: 20, Shuffle: true, PadLastBatch: true, Costs: costs})
		testkit.Must(t, err)
		o := &DryRun{plan: plan, costs: costs}
		s, err := o.Stats(t.Context(), DryRunOptions{Config: keep.Config{Ratio: 0.5}, Cached: true, First: 1, Last: 3})
		testkit.Must(t, err)
		if s.RawPerBatch != test.raw || s.PackedPerBatch != test.packed || s.HitsPerBatch != (Bounds{10, 10, true}) {
			t.Errorf("%s: %v raw, %v packed, %v hits", name, s.RawPerBatch, s.PackedPerBatch, s.HitsPerBatch)
		}
	}
}
