package shard

import (
	"errors"
	"github.com/batchfs/batchfs/internal/option"
	"testing"
)

// FuzzPlan queries any batch of any plan. A plan that New accepts must be consistent, and a
// rejection must be explained.
func FuzzPlan(f *testing.F) {
	f.Add(int64(10), 3, 4, uint8(0), uint64(7), uint64(0), 2, 5, 0, 0, 0)
	f.Add(int64(1), 1, 1, uint8(31), uint64(1), ^uint64(0), 0, 0, 0, 0, 0)
	f.Add(int64(1281167), 8, 256, uint8(11), uint64(7), uint64(0b1011), 7, 99_999, 624, 64, 0)
	f.Add(int64(1281167), 8, 256, uint8(10), uint64(7), uint64(0b1011), 7, 99_999, 624, 0, 4)
	f.Add(int64(maxSamples), 1, 300, uint8(2), uint64(7), uint64(0), 0, MaxEpochs-1, 0, 0, 0)
	f.Add(int64(5), 6, 0, uint8(255), uint64(0), uint64(0), -1, -1, -1, -1, -1)
	f.Add(int64(3000), 4, 16, uint8(0b10001110), uint64(5), uint64(9), 3, 7, 46, 0, 2)
	f.Fuzz(func(t *testing.T, n int64, shards, batchSize int, settings uint8, seed, pattern uint64, shard, epoch, batch, window, nodes int) {
		if n > 1<<24 && window > 0 {
			return // ordering so many blocks takes long
		}
		cfg := Config{Samples: n, Shards: shards, BatchSize: batchSize, Seed: seed, Window: window, Nodes: nodes, Partition: Partition(settings >> 6 % 3),
			StickToShard: settings&1 != 0, PadLastBatch: settings&2 != 0, Shuffle: settings&8 != 0, LastBatch: LastBatch(settings >> 4 & 3 % 3)}
		if settings&4 != 0 && n < 1<<12 {
			cfg.Costs = NewCosts(n, func(id int64) Cost { return [4]Cost{Encoded, Raw, Packed}[pattern>>(id%63)&3] })
		}
		if seed%2 != 0 {
			cfg.Blocks = cuts(n, int64(pattern%1000))
		}
		p, err := New(cfg)
		if err != nil {
			var bad *option.Error
			if !errors.As(err, &bad) || bad.Field == "" || bad.Rule == "" || bad.Value == "" {
				t.Fatalf("unexplained: %v", err)
			}
			return
		}
		askAbout(t, p, shard, epoch, batch)
	})
}

func askAbout(t *testing.T, p *Plan, shard, epoch, batch int) {
	if p.cfg.Partition == Local && p.shards*p.batch > 1<<20 {
		return // too large to check here
	}
	wantSlots, wantValid := p.Size(shard, epoch, batch)
	exists := batch >= 0 && batch < p.Batches(shard, epoch)
	if wantSlots > 1<<9 {
		return // too large to check here
	}
	slots, valid := p.Batch(shard, epoch, batch, nil)
	if len(slots) != wantSlots || valid != wantValid || valid > len(slots) || !exists && len(slots) != 0 {
		t.Fatalf("%d slots, %d valid; Size says %d, %d; exists: %v", len(slots), valid, wantSlots, wantValid, exists)
	}
	checkSlots(t, p, shard, slots, valid)
	if p.costs != nil && valid > 0 && (p.cfg.PadLastBatch || !p.cfg.StickToShard) {
		checkMix(t, p, slots[:valid])
	}
	for j := 1; j < valid && p.cfg.Partition != Local; j++ {
		if before, slot := slots[j-1], slots[j]; slot.Epoch == before.Epoch && slot.Position != before.Position+1 {
			t.Fatalf("%+v follows %+v", slot, before)
		}
	}
}
