package keep

import (
	"math/rand/v2"
	"testing"

	"github.com/batchfs/batchfs/shard"
)

// beside chooses for two caches: samples of the first are not candidates of the second.
func beside(t testing.TB, p *shard.Plan, epoch int, c Config, second float64) (one, two *Choice, with Config) {
	t.Helper()
	one = mustKeep(t, p, epoch, c)
	c.Ratio, c.Except = second, one.Kept
	return one, mustKeep(t, p, epoch, c), c
}

// TestTwoCaches: no sample is in both, neither has more than ceil(r·d) of any set, and if batches
// have samples to spare, each full batch has at least floor(r·d). So the number in neither differs
// by less than 2 from its share of a full batch.
func TestTwoCaches(t *testing.T) {
	rng := rand.New(rand.NewPCG(31, 32))
	level, plans := 0, 120
	if testing.Short() {
		plans = 40
	}
	for range plans {
		p, epoch, r, c := randomKeep(t, rng, func(cfg *shard.Config, _ *Config) {
			cfg.PadLastBatch, cfg.LastBatch = true, shard.Fill
			if rng.IntN(2) == 0 {
				cfg.Samples, cfg.BatchSize, cfg.Costs = 20*cfg.Samples+4000, 16+rng.IntN(100), nil
			}
		})
		second := keepRatios[rng.IntN(len(keepRatios))]
		spare := 1 - r.float() - second.float()
		if spare < 0 {
			continue
		}
		one, two, with := beside(t, p, epoch, c, second.float())
		for id := range p.Config().Samples {
			if one.Kept(id) && two.Kept(id) {
				t.Fatalf("sample %d is kept twice", id)
			}
		}
		roomy := p.Config().Shuffle && p.Config().BatchSize >= 16 && p.Config().Costs == nil && spare >= 0.1 && p.Config().Samples >= 4000
		if roomy {
			level++
		}
		first := account(p, epoch, c, one)
		for set, got := range account(p, epoch, with, two) {
			lo, hi, rest := second.floor(got.valid), second.ceil(got.valid), got.valid-got.kept-first[set].kept
			if set.kind == "all" || set.kind == "up to step" || got.valid < int64(p.Config().BatchSize) {
				lo-- // a last batch of a few samples may have none to spare
			}
			if got.kept > hi || roomy && got.kept < lo {
				t.Fatalf("%s, epoch %d, %+v after %+v: %+v has %+v, want %d to %d", describe(p.Config()), epoch, second, r, set, *got, lo, hi)
			}
			if share := spare * float64(got.valid); roomy && set.kind == "batch" && got.valid == int64(p.Config().BatchSize) && (float64(rest) <= share-2 || float64(rest) >= share+2) {
				t.Fatalf("%s: %d of %+v are in neither, want about %.2f", describe(p.Config()), rest, set, share)
			}
		}
	}
	if level < plans/10 {
		t.Errorf("only %d plans had samples to spare", level)
	}
}

// TestAllThatIsLeft: a second cache with room for everything keeps what the first does not.
func TestAllThatIsLeft(t *testing.T) {
	for name, change := range kinds {
		cfg, c := shard.Config{Samples: 4000, Shards: 7, BatchSize: 100, Shuffle: true, Seed: 7, PadLastBatch: true}, Config{Ratio: 0.3}
		change(&cfg, &c)
		one, two, _ := beside(t, mustPlan(t, cfg), 1, c, 1)
		if one.Count()+two.Count() != one.Candidates() || two.Candidates() != one.Candidates()-one.Count() {
			t.Errorf("%s: %d and %d of %d", name, one.Count(), two.Count(), one.Candidates())
		}
	}
}

// TestSecondIsEven: every sample is equally likely to be in the second cache.
func TestSecondIsEven(t *testing.T) {
	const n, seeds = 120, 600
	counts := make([]int, n)
	for seed := range uint64(seeds) {
		p := mustPlan(t, shard.Config{Samples: n, Shards: 2, BatchSize: 10, Shuffle: true, Seed: seed, PadLastBatch: true})
		_, two, _ := beside(t, p, 0, Config{Ratio: 0.3}, 0.4)
		for id := range counts {
			if two.Kept(int64(id)) {
				counts[id]++
			}
		}
	}
	if x := excess(counts, 0.4*seeds, n-1); x > 3 {
		t.Errorf("%.1f standard deviations off: %v", x, counts)
	}
}

// TestMemoryOfSecond: Needs covers the memory of a second choice, which is as much as if batches
// lack candidates.
func TestMemoryOfSecond(t *testing.T) {
	for _, b := range []int{2, 32, 256} {
		for name, change := range kinds {
			cfg := shard.Config{Samples: 8_000, Shards: 7, BatchSize: b, Shuffle: true, Seed: 7, PadLastBatch: true}
			c, m := Config{Ratio: 0.3}, &metered{}
			change(&cfg, &c)
			p := mustPlan(t, cfg)
			c.Except = mustKeep(t, p, 1, c).Kept
			if _, err := Choose(p, 1, c, m); err != nil {
				t.Fatal(err)
			}
			if most := Needs(p, c); m.peak > most || m.peak < most/14 {
				t.Errorf("batches of %d, %s: took %d bytes, Needs says %d", b, name, m.peak, most)
			}
		}
	}
}
