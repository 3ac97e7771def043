package keep

import (
	"testing"

	"github.com/batchfs/batchfs/shard"
)

// TestMixedOrdersHitEvenly: where raw and encoded samples are mixed in windows, or placed locally, every full
// batch keeps and hits its share, as in any order.
func TestMixedOrdersHitEvenly(t *testing.T) {
	base := shard.Config{Samples: 4800, Shards: 4, BatchSize: 30, Shuffle: true, Seed: 7, PadLastBatch: true}
	base.Raw = shard.NewRawSet(base.Samples, func(id int64) bool { return id%5 == 0 })
	for name, change := range map[string]func(*shard.Config){
		"window": func(cfg *shard.Config) { cfg.Window = 2 },
		"local":  func(cfg *shard.Config) { cfg.Partition = shard.Local },
	} {
		cfg := base
		change(&cfg)
		p := mustPlan(t, cfg)
		c := mustKeep(t, p, 3, Config{Ratio: 0.3})
		for epoch := 3; epoch <= 4; epoch++ {
			for s := range cfg.Shards {
				for i := range p.Batches(s, epoch) {
					slots, valid := p.Batch(s, epoch, i, nil)
					kept := 0
					for _, slot := range slots[:valid] {
						if c.Kept(slot.ID) {
							kept++
						}
					}
					if kept != 9 {
						t.Fatalf("%s: batch %d of shard %d in epoch %d has %d kept, want 9", name, i, s, epoch, kept)
					}
				}
			}
		}
	}
}
