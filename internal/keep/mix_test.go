package keep

import (
	"testing"

	"github.com/batchfs/batchfs/shard"
)

// TestMixedOrdersHitEvenly: where samples of several costs are mixed in windows, or placed locally,
// every full batch keeps and hits its share, as in any order.
func TestMixedOrdersHitEvenly(t *testing.T) {
	base := shard.Config{Samples: 4800, Shards: 4, BatchSize: 30, Shuffle: true, Seed: 7, PadLastBatch: true}
	two := shard.NewCosts(base.Samples, func(id int64) shard.Cost { return [5]shard.Cost{shard.Raw}[id%5] })
	three := shard.NewCosts(base.Samples, func(id int64) shard.Cost { return [5]shard.Cost{shard.Raw, shard.Packed}[id%5] })
	for name, change := range map[string]func(*shard.Config){
		"window, two costs":   func(cfg *shard.Config) { cfg.Window, cfg.Costs = 2, two },
		"window, three costs": func(cfg *shard.Config) { cfg.Window, cfg.Costs = 2, three },
		"local, two costs":    func(cfg *shard.Config) { cfg.Partition, cfg.Costs = shard.Local, two },
		"local, three costs":  func(cfg *shard.Config) { cfg.Partition, cfg.Costs = shard.Local, three },
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
