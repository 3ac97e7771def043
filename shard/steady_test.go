package shard

import "testing"

// imageNet is the plan of 8 shards that the benchmarks use.
func imageNet(t testing.TB, change func(*Config)) *Plan {
	t.Helper()
	cfg := Config{Samples: 1281167, Shards: 8, BatchSize: 256, Shuffle: true, Seed: 7, PadLastBatch: true}
	change(&cfg)
	return mustPlan(t, cfg)
}

func mixed(cfg *Config) {
	cfg.Costs = NewCosts(cfg.Samples, func(id int64) Cost { return [10]Cost{Raw, Raw, Raw}[id*2654435761%10] })
}

func mixedOfThree(cfg *Config) {
	cfg.Costs = NewCosts(cfg.Samples, func(id int64) Cost { return [10]Cost{Raw, Raw, Raw, Packed, Packed}[id*2654435761%10] })
}

var steady = map[string]func(*Config){
	"padded":   func(*Config) {},
	"unpadded": func(cfg *Config) { cfg.PadLastBatch = false },
	"sticking": func(cfg *Config) { cfg.PadLastBatch, cfg.StickToShard = false, true },
	"partial":  func(cfg *Config) { cfg.LastBatch = Partial },
	"mixed":    mixed,
	"three":    mixedOfThree,
}

func TestNothingIsAllocated(t *testing.T) {
	for name, change := range steady {
		t.Run(name, func(t *testing.T) {
			p := imageNet(t, change)
			buffer, epoch := make([]Slot, p.batch), 0
			work := func() {
				last := p.Batches(3, epoch) - 1 // where ranges end
				slots, _ := p.Batch(3, epoch, last, buffer)
				p.Size(3, epoch, last)
				p.Samples(3, epoch)
				if p.ID(epoch, slots[0].Position) != slots[0].ID {
					t.Error("ID disagrees with Batch")
				}
				epoch++
			}
			if got := testing.AllocsPerRun(100, work); got != 0 {
				t.Errorf("%v allocations", got)
			}
		})
	}
}
