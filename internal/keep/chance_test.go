package keep

import (
	"github.com/batchfs/batchfs/shard"

	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"math"
	"testing"
)

// keptTimes counts, over seeds, how often each sample of a plan is kept.
func keptTimes(t *testing.T, cfg shard.Config, c Config, seeds int) []int {
	t.Helper()
	times := make([]int, cfg.Samples)
	for seed := range seeds {
		cfg.Seed = uint64(seed)
		k := mustKeep(t, mustPlan(t, cfg), seed%5, c)
		for id := range cfg.Samples {
			if k.Kept(id) {
				times[id]++
			}
		}
	}
	return times
}

// TestIsUniform: over seeds every sample is kept with probability r, even without a
// shuffle, so that only the choice is random. (The samples of one batch are not independent,
// but their dependence makes the statistic smaller.)
func TestIsUniform(t *testing.T) {
	const n, seeds = 48, 600
	two := shard.NewCosts(n, func(id int64) shard.Cost { return [4]shard.Cost{shard.Raw}[id%4] })
	three := shard.NewCosts(n, func(id int64) shard.Cost { return [4]shard.Cost{shard.Raw, shard.Packed}[id%4] })
	for name, test := range map[string]struct {
		cfg shard.Config
		r   float64
	}{
		"shuffled":           {shard.Config{Shards: 2, BatchSize: 7, Shuffle: true}, 0.3},
		"in order":           {shard.Config{Shards: 2, BatchSize: 7}, 2.0 / 3},
		"in order, sticking": {shard.Config{Shards: 4, BatchSize: 4, StickToShard: true}, 0.5},
		"one batch":          {shard.Config{Shards: 1, BatchSize: 100, Shuffle: true}, 0.7},
		"one sample a batch": {shard.Config{Shards: 3, BatchSize: 1, Shuffle: true}, 0.3},
		"partial":            {shard.Config{Shards: 7, BatchSize: 8, LastBatch: shard.Partial}, 0.3},
		"two costs":          {shard.Config{Shards: 2, BatchSize: 7, Shuffle: true, Costs: two}, 0.9},
		"two, in order":      {shard.Config{Shards: 2, BatchSize: 7, Costs: two}, 0.3},
		"three costs":        {shard.Config{Shards: 2, BatchSize: 7, Shuffle: true, Costs: three}, 0.6},
		"three, in order":    {shard.Config{Shards: 2, BatchSize: 7, Costs: three}, 0.3},
	} {
		test.cfg.Samples, test.cfg.PadLastBatch = n, true
		times, sum := keptTimes(t, test.cfg, Config{Ratio: test.r}, seeds), 0.0
		for _, k := range times {
			sum += math.Pow(float64(k)-seeds*test.r, 2) / (seeds * test.r * (1 - test.r))
		}
		if z := (sum - n) / math.Sqrt(2*n); z > 4 {
			t.Errorf("%s: chi-square is %.1f deviations above its mean: %v", name, z, times)
		}
	}
}

// TestIsUniformWhereSomeLack: if candidates are lacking, all samples still have the same
// chance, over orders.
func TestIsUniformWhereSomeLack(t *testing.T) {
	const n, seeds = 48, 500
	for name, test := range map[string]struct {
		cfg shard.Config
		c   Config
	}{
		"drop":         {cfg: shard.Config{Shards: 2, BatchSize: 7, LastBatch: shard.Drop}},
		"local shards": {cfg: shard.Config{Shards: 3, BatchSize: 7}, c: Config{LocalTo: 2}},
		"unpadded":     {cfg: shard.Config{Shards: 2, BatchSize: 7}},
	} {
		test.cfg.Samples, test.cfg.Shuffle, test.cfg.PadLastBatch = n, true, name != "unpadded"
		test.c.Ratio = 0.3
		times, all := keptTimes(t, test.cfg, test.c, seeds), 0
		for _, k := range times {
			all += k
		}
		if z := excess(times, float64(all)/n, n-1); z > 4 {
			t.Errorf("%s: chi-square is %.1f deviations above its mean: %v", name, z, times)
		}
	}
}

// checksum is the SHA-256 of a choice: one bit per sample, in little-endian words.
func checksum(k *Choice) string {
	data := []byte(nil)
	for _, word := range k.words {
		data = binary.LittleEndian.AppendUint64(data, word)
	}
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:8])
}

// TestGoldenKeep pins the choice, on every CPU: when one of many nodes computes it again after
// a restart, it must not have changed.
func TestGoldenKeep(t *testing.T) {
	const n = 10_000
	two := shard.NewCosts(n, func(id int64) shard.Cost { return [10]shard.Cost{shard.Raw, shard.Raw, shard.Raw}[id%10] })
	three := shard.NewCosts(n, func(id int64) shard.Cost { return [10]shard.Cost{shard.Raw, shard.Raw, shard.Raw, shard.Packed}[id%10] })
	for _, test := range []struct {
		name string
		cfg  shard.Config
		c    Config
		want string
	}{
		{"shuffled", shard.Config{BatchSize: 32, Shuffle: true}, Config{Ratio: 0.3}, "4c4b542a395bcb4d"},
		{"in order", shard.Config{BatchSize: 32}, Config{Ratio: 0.3}, "d83eec8a6f670b23"},
		{"two costs", shard.Config{BatchSize: 32, Shuffle: true, Costs: two}, Config{Ratio: 0.123456789}, "04025a949f094cb1"},
		{"drop", shard.Config{BatchSize: 256, Shuffle: true, LastBatch: shard.Drop}, Config{Ratio: 0.5}, "3691501f0f373dca"},
		{"local", shard.Config{BatchSize: 32, Shuffle: true}, Config{Ratio: 0.3, LocalFrom: 2, LocalTo: 4}, "984b84f9690adacf"},
		{"three costs", shard.Config{BatchSize: 32, Shuffle: true, Costs: three}, Config{Ratio: 0.123456789}, "7c97d979874b309f"},
		{"local, little", shard.Config{BatchSize: 32, Shuffle: true, Costs: two}, Config{Ratio: 0.05, LocalFrom: 2, LocalTo: 4}, "7970bc0d39d04f1d"},
	} {
		test.cfg.Samples, test.cfg.Shards, test.cfg.Seed, test.cfg.PadLastBatch = n, 5, 7, true
		if got := checksum(mustKeep(t, mustPlan(t, test.cfg), 3, test.c)); got != test.want {
			t.Errorf("%s: %s, want %s", test.name, got, test.want)
		}
	}
}
