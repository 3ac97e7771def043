package shard

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/batchfs/batchfs/internal/option"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

func mustPlan(t testing.TB, cfg Config) *Plan {
	t.Helper()
	p, err := New(cfg)
	if err != nil {
		t.Fatalf("%+v: %v", cfg, err)
	}
	return p
}

// randomConfig is a random valid configuration of a few samples.
func randomConfig(rng *rand.Rand) Config {
	n := 1 + rng.Int64N(200)
	cfg := Config{
		Samples: n, Shards: 1 + rng.IntN(min(int(n), 12)), BatchSize: 1 + rng.IntN(40),
		Shuffle: rng.IntN(2) == 0, Seed: rng.Uint64(),
		StickToShard: rng.IntN(2) == 0, PadLastBatch: rng.IntN(2) == 0, LastBatch: LastBatch(rng.IntN(3)),
	}
	if rng.IntN(2) == 0 {
		cfg.Costs = randomCosts(rng, n)
	}
	return cfg
}

// describe names a configuration in a failure.
func describe(cfg Config) string {
	costs := cfg.Costs.before(cfg.Samples)
	cfg.Costs = nil
	return fmt.Sprintf("%+v with %d encoded, %d packed, %d raw", cfg, costs[Encoded], costs[Packed], costs[Raw])
}

// randomSteps is a random valid configuration with steps.
func randomSteps(rng *rand.Rand) Config {
	cfg := randomConfig(rng)
	cfg.PadLastBatch, cfg.StickToShard, cfg.Partition = true, false, Elastic
	if rng.IntN(2) == 0 {
		cfg.Blocks = cuts(cfg.Samples, rng.Int64N(50))
	}
	if cfg.Shuffle && rng.IntN(3) > 0 {
		cfg.Partition = Local
		for cfg.Nodes = 1 + rng.IntN(cfg.Shards); cfg.Shards%cfg.Nodes != 0; cfg.Nodes-- {
		}
	} else if cfg.Shuffle {
		cfg.Window = rng.IntN(9)
	}
	return cfg
}

// cuts divides samples into blocks of various sizes, some of them empty.
func cuts(n, most int64) (sizes []int64) {
	for size := int64(0); n > 0; size = (7*size + 3) % (most + 1) {
		if len(sizes) > 0 || size > 0 || most == 0 {
			size = min(max(size, (n+4095)/4096), n)
		}
		sizes, n = append(sizes, size), n-size
	}
	return sizes
}

// readEpoch returns all slots of a shard's epoch without the padding.
func readEpoch(p *Plan, shard, epoch int) (valid []Slot) {
	var slots []Slot
	for i := range p.Batches(shard, epoch) {
		var count int
		slots, count = p.Batch(shard, epoch, i, slots)
		valid = append(valid, slots[:count]...)
	}
	return valid
}

// TestPaddedReadsEverySampleOnce: padded Fill and Partial read every sample exactly once per epoch
// as a valid slot, so shards are disjoint; Drop reads none twice, and all its batches are full. All
// shards have the same number of batches.
func TestPaddedReadsEverySampleOnce(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	for range 500 {
		cfg := randomConfig(rng)
		if rng.IntN(2) == 0 {
			cfg = randomSteps(rng)
		}
		cfg.PadLastBatch = true
		p, epoch := mustPlan(t, cfg), rng.IntN(200_000)
		times := make([]int, cfg.Samples)
		for shard := range cfg.Shards {
			if p.Batches(shard, epoch) != p.Batches(0, epoch) {
				t.Fatalf("%s, epoch %d: batches differ between shards", describe(cfg), epoch)
			}
			slots := readEpoch(p, shard, epoch)
			if cfg.LastBatch == Drop && len(slots) != p.Batches(0, epoch)*cfg.BatchSize {
				t.Fatalf("%s: %d slots", describe(cfg), len(slots))
			}
			for _, slot := range slots {
				times[slot.ID]++
			}
		}
		for id, got := range times {
			if got > 1 || got == 0 && cfg.LastBatch != Drop {
				t.Fatalf("%s, epoch %d: sample %d read %d times", describe(cfg), epoch, id, got)
			}
		}
	}
}

// checkEpoch compares the slots of an epoch with everything else the plan says.
func checkEpoch(t *testing.T, p *Plan, shard, epoch int) {
	t.Helper()
	if n, first := p.Batches(shard, epoch), p.Batches(0, 0); n > first { // by which directories are sized
		t.Errorf("%d batches, and %d in the first epoch of shard 0", n, first)
	}
	var total, valid int64
	for i := range p.Batches(shard, epoch) {
		slots, count := p.Batch(shard, epoch, i, nil)
		wantSlots, wantCount := p.Size(shard, epoch, i)
		if len(slots) != wantSlots || count != wantCount {
			t.Fatalf("batch %d has %d slots, %d valid; Size says %d, %d", i, len(slots), count, wantSlots, wantCount)
		}
		total, valid = total+int64(len(slots)), valid+int64(count)
		checkSlots(t, p, shard, slots, count)
	}
	if wantTotal, wantValid := p.Samples(shard, epoch); total != wantTotal || valid != wantValid {
		t.Fatalf("%d slots, %d valid; Samples says %d, %d", total, valid, wantTotal, wantValid)
	}
}

func checkSlots(t *testing.T, p *Plan, shard int, slots []Slot, valid int) {
	t.Helper()
	for j, slot := range slots {
		lo, hi := p.Range(shard, slot.Epoch)
		atLo, atHi := p.RangeAt(slot.Position)
		switch {
		case atLo != lo || atHi != hi:
			t.Fatalf("%+v: RangeAt says %d-%d, Range %d-%d", slot, atLo, atHi, lo, hi)
		case slot.Position < lo || slot.Position >= hi:
			t.Fatalf("%+v outside the range %d-%d of its epoch", slot, lo, hi)
		case p.ID(slot.Epoch, slot.Position) != slot.ID:
			t.Fatalf("%+v: ID says %d", slot, p.ID(slot.Epoch, slot.Position))
		case j >= valid && p.cfg.Partition == Ranges && slot.Position != hi-1:
			t.Fatalf("%+v is padding, but not the range's last sample", slot)
		case j >= max(valid, 1) && slot != slots[j-1]:
			t.Fatalf("%+v is padding, but does not repeat %+v", slot, slots[j-1])
		}
	}
}

// TestPlanAgreesWithItself: everything a plan says about an epoch is consistent. Batches requested
// in any order, from another plan and into a reused buffer, equal batches read in order.
func TestPlanAgreesWithItself(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 8))
	for range 400 {
		cfg := randomConfig(rng)
		if rng.IntN(2) == 0 {
			cfg = randomSteps(rng)
		}
		p, shard, epoch := mustPlan(t, cfg), rng.IntN(cfg.Shards), rng.IntN(100_001)
		t.Run("", func(t *testing.T) {
			t.Log(describe(cfg), "shard", shard, "epoch", epoch)
			checkEpoch(t, p, shard, epoch)
			other, buffer := mustPlan(t, cfg), make([]Slot, 1, 20)
			for _, i := range rng.Perm(p.Batches(shard, epoch)) {
				want, _ := p.Batch(shard, epoch, i, nil)
				other.ID(epoch+rng.IntN(6), 0)
				got, _ := other.Batch(shard, epoch, i, buffer)
				if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
					t.Fatalf("batch %d: (-want +got)\n%s", i, diff)
				}
			}
		})
	}
}

func TestWhatDoesNotExist(t *testing.T) {
	for _, cfg := range []Config{{PadLastBatch: true}, {}, {PadLastBatch: true, Partition: Elastic, Window: 1}, {PadLastBatch: true, Partition: Local}} {
		cfg.Samples, cfg.Shards, cfg.BatchSize, cfg.Shuffle = 10, 3, 2, true
		p := mustPlan(t, cfg)
		for _, at := range [][3]int{{92, -40, 68}, {2, 0, 99}, {-1, 0, 0}, {3, 0, 0}, {0, -1, 0}, {0, MaxEpochs, 0}, {0, 0, -1}, {0, 0, 2}, {math.MaxInt, math.MaxInt, math.MaxInt}, {math.MinInt, math.MinInt, math.MinInt}} {
			if slots, valid := p.Batch(at[0], at[1], at[2], make([]Slot, 5)); len(slots) != 0 || valid != 0 {
				t.Errorf("Batch(%v) has %d slots, %d valid", at, len(slots), valid)
			}
			if slots, valid := p.Size(at[0], at[1], at[2]); slots != 0 || valid != 0 {
				t.Errorf("Size(%v) = %d, %d", at, slots, valid)
			}
		}
		for _, position := range []int64{-1, 10, math.MaxInt64, math.MinInt64} {
			if p.ID(0, position) != -1 {
				t.Errorf("position %d exists", position)
			}
			if lo, hi := p.RangeAt(position); lo != 0 || hi != 0 {
				t.Errorf("position %d is in the range %d-%d", position, lo, hi)
			}
		}
		if p.ID(-1, 0) != -1 {
			t.Error("epoch -1 has an order")
		}
		if lo, hi := p.Range(3, 0); lo != 0 || hi != 0 {
			t.Error("shard 3 of 3 has a range")
		}
		if lo, hi := p.Range(0, -1); lo != 0 || hi != 0 {
			t.Error("epoch -1 has a range")
		}
		if total, valid := p.Samples(3, 0); total != 0 || valid != 0 {
			t.Error("shard 3 of 3 has samples")
		}
	}
}

func TestConfigErrors(t *testing.T) {
	good := Config{Samples: 10, Shards: 3, BatchSize: 2}
	mustPlan(t, good)
	for _, test := range []struct {
		change func(*Config)
		field  string
		want   string
	}{
		{func(c *Config) { c.Samples = 0 }, "samples", "samples must be at least 1, not 0"},
		{func(c *Config) { c.Samples = -5 }, "samples", "samples must be at least 1, not -5"},
		{func(c *Config) { c.Samples = maxSamples + 1 }, "samples", "samples must be at most 68719476736, not 68719476737"},
		{func(c *Config) { c.Shards = 0 }, "shards", "shards must be at least 1, not 0"},
		{func(c *Config) { c.Shards = 11 }, "shards", "shards must be at most the number of samples, 10, not 11"},
		{func(c *Config) { c.BatchSize = 0 }, "batch size", "batch size must be at least 1, not 0"},
		{func(c *Config) { c.BatchSize = math.MinInt }, "batch size", fmt.Sprintf("batch size must be at least 1, not %d", math.MinInt)},
		{func(c *Config) { c.Window = 2 }, "window", "window must be 0, or a number of blocks for a shuffle, not 2"},
		{func(c *Config) { c.Shuffle, c.Window = true, -1 }, "window", "window must be 0, or a number of blocks for a shuffle, not -1"},
		{func(c *Config) { c.Blocks = []int64{4, 5} }, "blocks", "blocks must be sizes whose sum is the number of samples, 10, not 2 other sizes"},
		{func(c *Config) { c.Blocks = []int64{4, -1, 7} }, "blocks", "blocks must be sizes whose sum is the number of samples, 10, not 3 other sizes"},
		{func(c *Config) { c.Blocks = []int64{math.MaxInt64, math.MaxInt64, 12} }, "blocks", "blocks must be sizes whose sum is the number of samples, 10, not 3 other sizes"},
		{func(c *Config) { c.Partition, c.Shards = Elastic, 11 }, "world size", "world size must be at most the number of samples, 10, not 11"},
		{func(c *Config) { c.Partition = Elastic }, "partition", "partition must be ranges, unless the last batch is padded and shards do not stick, not elastic"},
		{func(c *Config) { c.Partition, c.PadLastBatch, c.BatchSize = Elastic, true, MaxBatchSize }, "batch size", "batch size must be at most 2147483647 in all shards, not 2147483647 in each of 3"},
		{func(c *Config) { c.Partition, c.PadLastBatch = Local, true }, "placement", "placement must be that of positions, unless all samples are shuffled together, not local"},
		{func(c *Config) { c.Nodes = 3 }, "nodes", "nodes must be 0, or with local placement a divisor of the number of shards, 3, not 3"},
		{func(c *Config) { c.Partition, c.PadLastBatch, c.Shuffle, c.Nodes = Local, true, true, 2 }, "nodes", "nodes must be 0, or with local placement a divisor of the number of shards, 3, not 2"},
		{func(c *Config) { c.Costs = costsEvery(9, 1, 0) }, "costs", "costs must be those of all 10 samples, not of 9"},
	} {
		cfg := good
		test.change(&cfg)
		_, err := New(cfg)
		var bad *option.Error
		if !errors.As(err, &bad) || bad.Field != test.field || err.Error() != test.want {
			t.Errorf("got %v, want %s", err, test.want)
		}
	}
}

// TestLimits: the largest configurations do not overflow.
func TestLimits(t *testing.T) {
	for _, shape := range []struct {
		shards, batch int
	}{{1, 1}, {1, 256}, {8, 1000}, {maxSamples, 1}, {maxSamples - 1, 7}, {1 << 20, 1<<16 + 1}, {3, MaxBatchSize}, {maxSamples, MaxBatchSize}} {
		for settings := range 12 {
			cfg := Config{Samples: maxSamples, Shards: shape.shards, BatchSize: shape.batch, Shuffle: true, Seed: 1,
				StickToShard: settings&1 != 0, PadLastBatch: settings&2 != 0, LastBatch: LastBatch(settings / 4)}
			p := mustPlan(t, cfg)
			shard, epoch := shape.shards-1, MaxEpochs-1
			last := p.Batches(shard, epoch) - 1
			if last < 0 {
				continue
			}
			if slots, _ := p.Size(shard, epoch, last); slots > 1<<17 {
				at := p.seek(shard, p.consumed(epoch)+int64(last)*p.batch)
				if lo, hi := p.Range(shard, at.epoch); at.position < lo || at.position >= hi || at.end != hi {
					t.Errorf("%+v: %+v outside %d-%d", cfg, at, lo, hi)
				}
				continue
			}
			slots, valid := p.Batch(shard, epoch, last, nil)
			checkSlots(t, p, shard, slots, valid)
			if len(slots) > 0 && slots[0].Epoch < epoch {
				t.Errorf("%+v: %+v lags behind epoch %d", cfg, slots[0], epoch)
			}
		}
	}
}

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
