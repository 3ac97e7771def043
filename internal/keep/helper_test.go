package keep

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/batchfs/batchfs/shard"
)

func mustPlan(t testing.TB, cfg shard.Config) *shard.Plan {
	t.Helper()
	p, err := shard.New(cfg)
	if err != nil {
		t.Fatalf("%+v: %v", cfg, err)
	}
	return p
}

// randomConfig is a random valid configuration of a few samples.
func randomConfig(rng *rand.Rand) shard.Config {
	n := 1 + rng.Int64N(200)
	cfg := shard.Config{
		Samples: n, Shards: 1 + rng.IntN(min(int(n), 12)), BatchSize: 1 + rng.IntN(40),
		Shuffle: rng.IntN(2) == 0, Seed: rng.Uint64(),
		StickToShard: rng.IntN(2) == 0, PadLastBatch: rng.IntN(2) == 0, LastBatch: shard.LastBatch(rng.IntN(3)),
	}
	if rng.IntN(2) == 0 {
		cfg.Costs = randomCosts(rng, n)
	}
	return cfg
}

// randomCosts has one to all of the costs, in any proportion.
func randomCosts(rng *rand.Rand, n int64) *shard.Costs {
	most := rng.Float64() * 1.2
	least := most * rng.Float64()
	of := rng.Perm(shard.NumCosts)
	return shard.NewCosts(n, func(int64) shard.Cost {
		switch x := rng.Float64(); {
		case x < least:
			return shard.Cost(of[0])
		case x < most:
			return shard.Cost(of[1])
		}
		return shard.Cost(of[2])
	})
}

// describe names a configuration in a failure.
func describe(cfg shard.Config) string {
	costs := ""
	for _, cost := range cfg.Costs.Present() {
		if cfg.Costs != nil {
			costs += fmt.Sprintf(", %d %v", cfg.Costs.Count(cost), cost)
		}
	}
	cfg.Costs = nil
	return fmt.Sprintf("%+v%s", cfg, costs)
}

// excess is how many standard deviations a chi-square statistic lies above its mean. The seeds
// are fixed, so a test that passes once always passes.
func excess(counts []int, expected float64, freedom int) float64 {
	sum := 0.0
	for _, c := range counts {
		sum += (float64(c) - expected) * (float64(c) - expected) / expected
	}
	return (sum - float64(freedom)) / math.Sqrt(2*float64(freedom))
}

func mixed(cfg *shard.Config) {
	cfg.Costs = shard.NewCosts(cfg.Samples, func(id int64) shard.Cost { return [10]shard.Cost{shard.Raw, shard.Raw, shard.Raw}[id*2654435761%10] })
}

func mixedOfThree(cfg *shard.Config) {
	cfg.Costs = shard.NewCosts(cfg.Samples, func(id int64) shard.Cost {
		return [10]shard.Cost{shard.Raw, shard.Raw, shard.Raw, shard.Packed, shard.Packed}[id*2654435761%10]
	})
}

// metered is a Workspace that counts its outstanding memory, and can fail.
type metered struct {
	onHeap
	live, peak int64
	blocks     int
	steps      int
	fail       int // Err fails at this step, and Take beyond refuse bytes; 0: never
	refuse     int64
}

var errEnough = errors.New("enough")

func (m *metered) Take(n int64) ([]byte, error) {
	if m.refuse > 0 && m.live+n > m.refuse {
		return nil, errEnough
	}
	m.live += n
	m.blocks++
	m.peak = max(m.peak, m.live)
	return m.onHeap.Take(n)
}

func (m *metered) Give(memory []byte) {
	spoil(memory)
	m.live -= int64(len(memory))
	m.blocks--
}

// spoil fills memory with garbage, so that a use after Give is noticed. The race detector would
// take most of a test's time to look at it.
//
//go:norace
func spoil(memory []byte) {
	for i := range memory {
		memory[i] = 0xff
	}
}

func (m *metered) Err() error {
	if m.steps++; m.fail > 0 && m.steps >= m.fail {
		return errEnough
	}
	return nil
}

var kinds = map[string]func(*shard.Config, *Config){
	"padded":   func(*shard.Config, *Config) {},
	"mixed":    func(cfg *shard.Config, _ *Config) { mixed(cfg) },
	"three":    func(cfg *shard.Config, _ *Config) { mixedOfThree(cfg) },
	"drop":     func(cfg *shard.Config, _ *Config) { cfg.LastBatch = shard.Drop },
	"unpadded": func(cfg *shard.Config, _ *Config) { cfg.PadLastBatch = false },
	"local":    func(cfg *shard.Config, c *Config) { mixed(cfg); c.LocalTo = 2 },
	"local, 3": func(cfg *shard.Config, c *Config) { mixedOfThree(cfg); c.LocalTo = 2 },
}
