package keep

import (
	"github.com/batchfs/batchfs/internal/option"
	"github.com/batchfs/batchfs/shard"

	"errors"
	"math"
	"testing"
)

// FuzzKeep keeps any share of any small plan. No set of slots may have more than the ceiling of
// its share, and no sample may be kept that is not read twice.
func FuzzKeep(f *testing.F) {
	f.Add(uint16(100), uint8(3), uint16(7), uint8(3), uint64(7), uint64(0b1011), uint16(5), 0.3, int8(0), int8(0))
	f.Add(uint16(60), uint8(4), uint16(100), uint8(0b100001), uint64(1), uint64(0), uint16(0), 0.999, int8(1), int8(3))
	f.Add(uint16(300), uint8(4), uint16(9), uint8(0b10001011), uint64(7), uint64(0b1011), uint16(5), 0.3, int8(1), int8(3))
	f.Add(uint16(37), uint8(5), uint16(2), uint8(0b11), ^uint64(0), ^uint64(0), uint16(9), 0x1p-40, int8(-1), int8(9))
	f.Add(uint16(400), uint8(2), uint16(16), uint8(0b1011), uint64(3), uint64(0b1011)|1<<63, uint16(5), 0.6, int8(0), int8(0))
	f.Add(uint16(400), uint8(15), uint16(85), uint8(0x22), uint64(3), uint64(1<<63|58), uint16(17), 0.6, int8(0), int8(0)) // has no batches
	f.Fuzz(func(t *testing.T, n uint16, shards uint8, batchSize uint16, settings uint8, seed, pattern uint64, epoch uint16, r float64, from, to int8) {
		cfg := shard.Config{Samples: int64(n % 512), Shards: int(shards), BatchSize: int(batchSize), Seed: seed,
			Shuffle: settings&1 != 0, PadLastBatch: settings&2 != 0, StickToShard: settings&4 != 0, LastBatch: shard.LastBatch(settings >> 4 & 3), Partition: shard.Partition(settings >> 6)}
		if settings&8 != 0 {
			cfg.Costs = shard.NewCosts(cfg.Samples, func(id int64) shard.Cost {
				return [4]shard.Cost{shard.Encoded, shard.Raw, shard.Packed}[pattern>>(id%63)&3]
			})
		}
		p, err := shard.New(cfg)
		if err != nil {
			return
		}
		c := Config{Ratio: r, LocalFrom: int(from), LocalTo: int(to)}
		packs := pattern>>63 != 0
		if packs {
			c.PackedShare = float64(seed%8) / 7
			c.Packed = func(id int64) bool { return pattern>>(id%61)&1 != 0 }
		}
		k, err := Choose(p, int(epoch), c, nil)
		if err != nil {
			var bad *option.Error
			if !errors.As(err, &bad) || bad.Field == "" || bad.Rule == "" || bad.Value == "" {
				t.Fatalf("unexplained: %v", err)
			}
			return
		}
		even := !packs && cfg.PadLastBatch && cfg.LastBatch != shard.Drop && (to == 0 || int(to-from) == cfg.Shards)
		sets := account(p, int(epoch), c, k)
		for set, got := range sets {
			share := r * float64(got.valid)
			if float64(got.kept) > math.Ceil(share-1e-9) && got.kept > 0 || even && float64(got.kept) < math.Floor(share+1e-9) {
				t.Fatalf("%s, epoch %d, %+v: %+v has %+v", describe(cfg), epoch, c, set, *got)
			}
		}
		checkCounts(t, k, sets)
	})
}
