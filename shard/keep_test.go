package shard

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
)

// level names a set of slots of one of the two epochs that has to be level.
type level struct {
	next         bool // in the second epoch
	kind         string
	batch, shard int
}

// tally is the content of a set, counted without the code under test.
type tally struct{ valid, candidates, kept int64 }

// readFirst visits what the local shards read in lock step.
func readFirst(p *Plan, epoch int, c KeepConfig, each func(id int64, shard, batch int, again bool)) {
	seen := map[int64]bool{}
	for i := range p.Batches(0, epoch) {
		for x := c.LocalFrom; x < c.LocalTo; x++ {
			slots, valid := p.Batch(x, epoch, i, nil)
			for _, slot := range slots[:valid] {
				each(slot.ID, x, i, seen[slot.ID])
				seen[slot.ID] = true
			}
		}
	}
}

func account(p *Plan, epoch int, c KeepConfig, k *Keep) map[level]*tally {
	if c.LocalTo == 0 {
		c.LocalTo = p.cfg.Shards
	}
	reads := [2]map[int64]bool{{}, {}}
	for i := range reads {
		readFirst(p, epoch+i, c, func(id int64, _, _ int, _ bool) { reads[i][id] = true })
	}
	sets := map[level]*tally{{false, "all", 0, 0}: {}}
	for i := range reads {
		next := i == 1
		readFirst(p, epoch+i, c, func(id int64, shard, batch int, again bool) {
			class := "encoded"
			if p.cfg.Raw != nil && p.cfg.Raw.Contains(id) {
				class = "raw"
			}
			in := []level{{next, "batch", batch, shard}, {next, class, batch, shard}, {next, "all", 0, 0}}
			for upto := batch; upto < p.Batches(0, epoch+i); upto++ {
				in = append(in, level{next, "up to step", upto, 0})
			}
			for _, set := range in {
				if sets[set] == nil {
					sets[set] = &tally{}
				}
				sets[set].count(!again && reads[1-i][id], k.Kept(id))
			}
		})
	}
	return sets
}

func (t *tally) count(candidate, kept bool) {
	t.valid++
	if candidate {
		t.candidates++
		if kept {
			t.kept++
		}
	}
}

// ratio is p/q, exact where a float64 is not.
type ratio struct{ p, q int64 }

func (r ratio) float() float64      { return float64(r.p) / float64(r.q) }
func (r ratio) floor(d int64) int64 { return d * r.p / r.q }
func (r ratio) ceil(d int64) int64  { return (d*r.p + r.q - 1) / r.q }

var keepRatios = []ratio{{1, 10}, {3, 10}, {1, 2}, {1, 3}, {2, 3}, {7, 8}, {99, 100}, {123456789, 1000000000}, {1, 1000003}, {1, 7}, {5, 9}, {0, 1}, {1, 1}}

func mustKeep(t testing.TB, p *Plan, epoch int, c KeepConfig) *Keep {
	t.Helper()
	k, err := p.Keep(epoch, c)
	if err != nil {
		t.Fatalf("%s, epoch %d, %+v: %v", describe(p.cfg), epoch, c, err)
	}
	return k
}

// randomKeep is a plan of a few samples, and a random KeepConfig for one of its epochs.
func randomKeep(t testing.TB, rng *rand.Rand, change func(*Config, *KeepConfig)) (*Plan, int, ratio, KeepConfig) {
	t.Helper()
	cfg, r := randomConfig(rng), keepRatios[rng.IntN(len(keepRatios))]
	c := KeepConfig{Ratio: r.float()}
	change(&cfg, &c)
	return mustPlan(t, cfg), rng.IntN(50), r, c
}

// TestKeepIsLevel: if no batch lacks candidates, floor(r·d) or ceil(r·d) of every set are kept.
func TestKeepIsLevel(t *testing.T) {
	rng := rand.New(rand.NewPCG(21, 22))
	for range 600 {
		p, epoch, r, c := randomKeep(t, rng, func(cfg *Config, _ *KeepConfig) {
			cfg.PadLastBatch, cfg.LastBatch = true, LastBatch(rng.IntN(2)) // fill or partial
		})
		k := mustKeep(t, p, epoch, c)
		sets := account(p, epoch, c, k)
		for set, got := range sets {
			if got.kept < r.floor(got.valid) || got.kept > r.ceil(got.valid) || got.candidates != got.valid {
				t.Fatalf("%s, epoch %d, %+v: %+v has %+v, want %d to %d", describe(p.cfg), epoch, r, set, *got, r.floor(got.valid), r.ceil(got.valid))
			}
		}
		checkCounts(t, k, sets)
	}
}

// checkCounts compares a choice's own counts with an independent count.
func checkCounts(t *testing.T, k *Keep, sets map[level]*tally) {
	t.Helper()
	var raw tally
	for set, got := range sets {
		if !set.next && set.kind == "raw" {
			raw.kept, raw.candidates = raw.kept+got.kept, raw.candidates+got.candidates
		}
	}
	want := sets[level{false, "all", 0, 0}]
	kept, keptRaw := k.Count()
	candidates, candidatesRaw := k.Candidates()
	if kept != want.kept || keptRaw != raw.kept || candidates != want.candidates || candidatesRaw != raw.candidates {
		t.Fatalf("keeps %d (%d raw) of %d (%d raw), want %+v, raw %+v", kept, keptRaw, candidates, candidatesRaw, *want, raw)
	}
	all := int64(0)
	for id := range k.samples {
		if k.Kept(id) {
			all++
		}
	}
	if all != kept || k.Kept(-1) || k.Kept(k.samples) {
		t.Fatalf("%d samples are kept, Count says %d", all, kept)
	}
}

// TestKeepOccupancy: in lock step, the number of samples held stays within 3 of r·n from the
// second epoch on.
func TestKeepOccupancy(t *testing.T) {
	rng := rand.New(rand.NewPCG(25, 26))
	for range 100 {
		p, epoch, _, c := randomKeep(t, rng, func(cfg *Config, _ *KeepConfig) {
			cfg.PadLastBatch, cfg.LastBatch = true, LastBatch(rng.IntN(2))
		})
		before, k := mustKeep(t, p, epoch, c), mustKeep(t, p, epoch+1, c)
		held, _ := before.Count()
		step := 0
		check := func() {
			if want := c.Ratio * float64(p.samples); math.Abs(float64(held)-want) >= 3 {
				t.Fatalf("%s, %+v: holds %d before step %d, want about %.1f", describe(p.cfg), c, held, step, want)
			}
		}
		readFirst(p, epoch+1, KeepConfig{LocalTo: p.cfg.Shards}, func(id int64, _, batch int, _ bool) {
			if batch != step {
				check()
				step = batch
			}
			if before.Kept(id) {
				held--
			}
			if k.Kept(id) {
				held++
			}
		})
		check()
	}
}

func TestKeepErrors(t *testing.T) {
	p := mustPlan(t, Config{Samples: 100, Shards: 8, BatchSize: 4, PadLastBatch: true})
	for _, test := range []struct {
		epoch int
		c     KeepConfig
		field string
		want  string
	}{
		{0, KeepConfig{Ratio: -0.1}, "cache ratio", "cache ratio must be from 0 to 1, not -0.1"},
		{0, KeepConfig{Ratio: 1.5}, "cache ratio", "cache ratio must be from 0 to 1, not 1.5"},
		{0, KeepConfig{Ratio: math.NaN()}, "cache ratio", "cache ratio must be from 0 to 1, not NaN"},
		{0, KeepConfig{Ratio: math.Inf(1)}, "cache ratio", "cache ratio must be from 0 to 1, not +Inf"},
		{0, KeepConfig{LocalFrom: -1, LocalTo: 2}, "local shards", "local shards must be at least one of 0 to 7, not -1 to 1"},
		{0, KeepConfig{LocalFrom: 3, LocalTo: 9}, "local shards", "local shards must be at least one of 0 to 7, not 3 to 8"},
		{0, KeepConfig{LocalFrom: 3, LocalTo: 3}, "local shards", "local shards must be at least one of 0 to 7, not 3 to 2"},
		{-1, KeepConfig{}, "epoch", fmt.Sprintf("epoch must be from 0 to %d, not -1", MaxEpochs-2)},
		{MaxEpochs - 1, KeepConfig{}, "epoch", fmt.Sprintf("epoch must be from 0 to %d, not %d", MaxEpochs-2, MaxEpochs-1)},
	} {
		_, err := p.Keep(test.epoch, test.c)
		var bad *ConfigError
		if !errors.As(err, &bad) || bad.Field != test.field || err.Error() != test.want {
			t.Errorf("%+v: %v, want %s", test, err, test.want)
		}
	}
	for field, cfg := range map[string]Config{
		"samples":    {Samples: maxKeepSamples + 1, Shards: 8, BatchSize: 4},
		"batch size": {Samples: maxKeepSamples, Shards: 8, BatchSize: 1},
	} {
		huge := mustPlan(t, cfg)
		_, err := huge.Keep(0, KeepConfig{})
		var bad *ConfigError
		if !errors.As(err, &bad) || bad.Field != field || huge.KeepMemory(KeepConfig{}) != 0 {
			t.Errorf("%+v: %v, %d bytes", cfg, err, huge.KeepMemory(KeepConfig{}))
		}
	}
	if k := mustKeep(t, p, MaxEpochs-2, KeepConfig{Ratio: 0.5}); k.kept[classEncoded] != 50 {
		t.Errorf("from the last epoch but one %v are kept", k.kept)
	}
}

// TestKeepOfNothing: epochs without batches have no candidates.
func TestKeepOfNothing(t *testing.T) {
	p := mustPlan(t, Config{Samples: 10, Shards: 3, BatchSize: 4, Shuffle: true, PadLastBatch: true, LastBatch: Drop})
	k := mustKeep(t, p, 0, KeepConfig{Ratio: 0.5})
	if all, _ := k.Candidates(); all != 0 || k.Kept(3) {
		t.Errorf("%d candidates", all)
	}
}

// TestKeepMemory: KeepMemory covers everything that is taken at a time, and is close to it; all
// memory is returned.
func TestKeepMemory(t *testing.T) {
	for _, n := range []int64{8000, 80_000} {
		for _, b := range []int{1, 32, 1000} {
			for name, change := range keepKinds {
				cfg := Config{Samples: n, Shards: 7, BatchSize: b, Shuffle: true, Seed: 7, PadLastBatch: true}
				c := KeepConfig{Ratio: 0.3}
				change(&cfg, &c)
				p, m := mustPlan(t, cfg), &metered{}
				k, err := p.KeepIn(1, c, m)
				if err != nil {
					t.Fatal(err)
				}
				if most := p.KeepMemory(c); m.peak > most || m.peak < most/14 {
					t.Errorf("%d samples in batches of %d, %s: took %d bytes, KeepMemory says %d", n, b, name, m.peak, most)
				}
				if m.live != 0 || m.blocks != 0 {
					t.Errorf("%d samples in batches of %d, %s: %d bytes in %d blocks were not given back", n, b, name, m.live, m.blocks)
				}
				if k.Bytes() != p.KeepBytes() || k.Bytes() != (n+63)/64*8 {
					t.Errorf("holds %d bytes, KeepBytes says %d", k.Bytes(), p.KeepBytes())
				}
				if want := checksum(mustKeep(t, p, 1, c)); checksum(k) != want {
					t.Errorf("%d samples in batches of %d, %s: the workspace changes the choice", n, b, name)
				}
			}
		}
	}
}

// TestKeepEnds: a workspace can end Keep anywhere, with Err or by refusing memory, and gets
// everything back. Keep calls Err often, with only a few of its steps in between.
func TestKeepEnds(t *testing.T) {
	for _, b := range []int{2, 100} {
		for name, change := range keepKinds {
			cfg := Config{Samples: 10_000, Shards: 7, BatchSize: b, Shuffle: true, Seed: 7, PadLastBatch: true}
			c := KeepConfig{Ratio: 0.3}
			change(&cfg, &c)
			p, whole := mustPlan(t, cfg), &metered{}
			if _, err := p.KeepIn(1, c, whole); err != nil {
				t.Fatal(err)
			}
			// Each read of the samples, and each pass over the edges, calls Err.
			if least := 10 * 10_000 / (checkMask + 1); whole.steps < least {
				t.Errorf("batches of %d, %s: asked %d times, want %d at least", b, name, whole.steps, least)
			}
			for i := 1; i < whole.steps; i += 1 + whole.steps/16 {
				m := &metered{fail: i}
				if k, err := p.KeepIn(1, c, m); !errors.Is(err, errEnough) || k != nil || m.steps != i || m.live != 0 || m.blocks != 0 {
					t.Fatalf("batches of %d, %s, ended at step %d: %v after %d, %d bytes left", b, name, i, err, m.steps, m.live)
				}
			}
			for part := int64(1); part < 10; part += 2 {
				m := &metered{refuse: whole.peak * part / 10}
				if k, err := p.KeepIn(1, c, m); !errors.Is(err, errEnough) || k != nil || m.live != 0 || m.blocks != 0 {
					t.Fatalf("batches of %d, %s, with %d bytes: %v, %d bytes left", b, name, m.refuse, err, m.live)
				}
			}
		}
	}
}

func BenchmarkKeep(b *testing.B) {
	for name, change := range keepKinds {
		b.Run(name, func(b *testing.B) {
			c := KeepConfig{Ratio: 0.3}
			p := imageNet(b, func(cfg *Config) { change(cfg, &c) })
			b.ReportAllocs()
			for i := range b.N {
				mustKeep(b, p, i, c)
			}
		})
	}
}
