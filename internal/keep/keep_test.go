package keep

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/batchfs/batchfs/internal/option"
	"github.com/batchfs/batchfs/internal/testkit"
	"github.com/batchfs/batchfs/shard"
)

// level names a set of slots of one of the two epochs that must be level.
type level struct {
	next         bool // in the second epoch
	kind         string
	batch, shard int
}

// tally is the content of a set, counted without the code under test.
type tally struct{ valid, candidates, kept int64 }

// readFirst visits the samples that the local shards read, in lock step.
func readFirst(p *shard.Plan, epoch int, c Config, each func(id int64, shard, batch int, again bool)) {
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

func account(p *shard.Plan, epoch int, c Config, k *Choice) map[level]*tally {
	if c.LocalTo == 0 {
		c.LocalTo = p.Config().Shards
	}
	reads := [2]map[int64]bool{{}, {}}
	for i := range reads {
		readFirst(p, epoch+i, c, func(id int64, _, _ int, _ bool) { reads[i][id] = true })
	}
	sets := map[level]*tally{{false, "all", 0, 0}: {}}
	for i := range reads {
		next := i == 1
		readFirst(p, epoch+i, c, func(id int64, shard, batch int, again bool) {
			cost := p.Config().Costs.Of(id).String()
			in := []level{{next, "batch", batch, shard}, {next, cost, batch, shard}, {next, "all", 0, 0}}
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

func mustKeep(t testing.TB, p *shard.Plan, epoch int, c Config) *Choice {
	t.Helper()
	k, err := Choose(p, epoch, c, nil)
	if err != nil {
		t.Fatalf("%s, epoch %d, %+v: %v", describe(p.Config()), epoch, c, err)
	}
	return k
}

// randomKeep is a plan of a few samples, and a random Config for one of its epochs.
func randomKeep(t testing.TB, rng *rand.Rand, change func(*shard.Config, *Config)) (*shard.Plan, int, ratio, Config) {
	t.Helper()
	cfg, r := randomConfig(rng), keepRatios[rng.IntN(len(keepRatios))]
	c := Config{Ratio: r.float()}
	change(&cfg, &c)
	if cfg.PadLastBatch && !cfg.StickToShard && rng.IntN(2) == 0 {
		cfg.Partition = shard.Elastic
		if cfg.Shuffle && rng.IntN(2) == 0 {
			cfg.Partition = shard.Local
		}
	}
	if cfg.Shuffle && cfg.Partition == shard.Ranges && rng.IntN(2) == 0 {
		cfg.Window = 1 + rng.IntN(8)
	}
	return mustPlan(t, cfg), rng.IntN(50), r, c
}

// TestIsLevel: if no batch lacks candidates, floor(r·d) or ceil(r·d) of every set are kept. So what
// is held in lock step, which is kept of two epochs up to a step, stays within 3 of r·n.
func TestIsLevel(t *testing.T) {
	rng := rand.New(rand.NewPCG(21, 22))
	for range 600 {
		p, epoch, r, c := randomKeep(t, rng, func(cfg *shard.Config, _ *Config) {
			cfg.PadLastBatch, cfg.LastBatch = true, shard.LastBatch(rng.IntN(2)) // fill or partial
		})
		k := mustKeep(t, p, epoch, c)
		sets := account(p, epoch, c, k)
		for set, got := range sets {
			if got.kept < r.floor(got.valid) || got.kept > r.ceil(got.valid) || got.candidates != got.valid {
				t.Fatalf("%s, epoch %d, %+v: %+v has %+v, want %d to %d", describe(p.Config()), epoch, r, set, *got, r.floor(got.valid), r.ceil(got.valid))
			}
		}
		checkCounts(t, k, sets)
	}
}

// checkCounts compares a choice's own counts with an independent count.
func checkCounts(t *testing.T, k *Choice, sets map[level]*tally) {
	t.Helper()
	want := sets[level{false, "all", 0, 0}]
	kept := k.Count()
	if kept != want.kept || k.Candidates() != want.candidates {
		t.Fatalf("keeps %d of %d, want %+v", kept, k.Candidates(), *want)
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

func TestErrors(t *testing.T) {
	p := mustPlan(t, shard.Config{Samples: 100, Shards: 8, BatchSize: 4, PadLastBatch: true})
	for _, test := range []struct {
		epoch int
		c     Config
		field string
		want  string
	}{
		{0, Config{Ratio: -0.1}, "cache ratio", "cache ratio must be from 0 to 1, not -0.1"},
		{0, Config{Ratio: 1.5}, "cache ratio", "cache ratio must be from 0 to 1, not 1.5"},
		{0, Config{Ratio: math.NaN()}, "cache ratio", "cache ratio must be from 0 to 1, not NaN"},
		{0, Config{Ratio: math.Inf(1)}, "cache ratio", "cache ratio must be from 0 to 1, not +Inf"},
		{0, Config{LocalFrom: -1, LocalTo: 2}, "local shards", "local shards must be at least one of 0 to 7, not -1 to 1"},
		{0, Config{LocalFrom: 3, LocalTo: 9}, "local shards", "local shards must be at least one of 0 to 7, not 3 to 8"},
		{0, Config{LocalFrom: 3, LocalTo: 3}, "local shards", "local shards must be at least one of 0 to 7, not 3 to 2"},
		{-1, Config{}, "epoch", fmt.Sprintf("epoch must be from 0 to %d, not -1", shard.MaxEpochs-2)},
		{shard.MaxEpochs - 1, Config{}, "epoch", fmt.Sprintf("epoch must be from 0 to %d, not %d", shard.MaxEpochs-2, shard.MaxEpochs-1)},
	} {
		_, err := Choose(p, test.epoch, test.c, nil)
		var bad *option.Error
		if !errors.As(err, &bad) || bad.Field != test.field || err.Error() != test.want {
			t.Errorf("%+v: %v, want %s", test, err, test.want)
		}
	}
	for field, cfg := range map[string]shard.Config{
		"samples":    {Samples: maxSamples + 1, Shards: 8, BatchSize: 4},
		"batch size": {Samples: maxSamples, Shards: 8, BatchSize: 1},
	} {
		huge := mustPlan(t, cfg)
		_, err := Choose(huge, 0, Config{}, nil)
		var bad *option.Error
		if !errors.As(err, &bad) || bad.Field != field || Needs(huge, Config{}) != 0 {
			t.Errorf("%+v: %v, %d bytes", cfg, err, Needs(huge, Config{}))
		}
	}
	if k := mustKeep(t, p, shard.MaxEpochs-2, Config{Ratio: 0.5}); k.Count() != 50 {
		t.Errorf("from the last epoch but one %v are kept", k.Count())
	}
}

// TestOfNothing: epochs without batches have no candidates.
func TestOfNothing(t *testing.T) {
	p := mustPlan(t, shard.Config{Samples: 10, Shards: 3, BatchSize: 4, Shuffle: true, PadLastBatch: true, LastBatch: shard.Drop})
	k := mustKeep(t, p, 0, Config{Ratio: 0.5})
	if all := k.Candidates(); all != 0 || k.Kept(3) {
		t.Errorf("%d candidates", all)
	}
}

// TestMemory: Needs covers everything that is taken at a time, and is close to it; all
// memory is returned.
func TestMemory(t *testing.T) {
	for _, least := range []int64{2000, 20_000} {
		for _, b := range []int{1, 32, 1000} {
			n := least
			if b > 1 { // one leaf per sample takes long
				n *= 4
			}
			for name, change := range kinds {
				cfg := shard.Config{Samples: n, Shards: 7, BatchSize: b, Shuffle: true, Seed: 7, PadLastBatch: true}
				c := Config{Ratio: 0.3}
				change(&cfg, &c)
				p, m := mustPlan(t, cfg), &metered{}
				k, err := Choose(p, 1, c, m)
				testkit.Must(t, err)
				if most := Needs(p, c); m.peak > most || m.peak < most/14 {
					t.Errorf("%d samples in batches of %d, %s: took %d bytes, Needs says %d", n, b, name, m.peak, most)
				}
				if m.live != 0 || m.blocks != 0 {
					t.Errorf("%d samples in batches of %d, %s: %d bytes in %d blocks were not given back", n, b, name, m.live, m.blocks)
				}
				if got := int64(cap(k.words)) * 8; got != Size(p) {
					t.Errorf("holds %d bytes, Size says %d", got, Size(p))
				}
				if n <= 8000 && checksum(k) != checksum(mustKeep(t, p, 1, c)) {
					t.Errorf("%d samples in batches of %d, %s: the workspace changes the choice", n, b, name)
				}
			}
		}
	}
}

// TestEnds: a workspace can end Keep anywhere, with Err or by refusing memory, and gets
// everything back. Keep calls Err often, with only a few of its steps in between.
func TestEnds(t *testing.T) {
	for b, n := range map[int]int64{2: 4000, 100: 10_000} {
		for name, change := range kinds {
			cfg := shard.Config{Samples: n, Shards: 7, BatchSize: b, Shuffle: true, Seed: 7, PadLastBatch: true}
			c := Config{Ratio: 0.3}
			change(&cfg, &c)
			p, whole := mustPlan(t, cfg), &metered{}
			if _, err := Choose(p, 1, c, whole); err != nil {
				t.Fatal(err)
			}
			// Each read of the samples, and each pass over the edges, calls Err.
			if least := 10 * int(n) / (checkMask + 1); whole.steps < least {
				t.Errorf("batches of %d, %s: asked %d times, want %d at least", b, name, whole.steps, least)
			}
			for i := 1; i < whole.steps; i += 1 + whole.steps/16 {
				m := &metered{fail: i}
				if k, err := Choose(p, 1, c, m); !errors.Is(err, errEnough) || k != nil || m.steps != i || m.live != 0 || m.blocks != 0 {
					t.Fatalf("batches of %d, %s, ended at step %d: %v after %d, %d bytes left", b, name, i, err, m.steps, m.live)
				}
			}
			for part := int64(1); part < 10; part += 2 {
				m := &metered{refuse: whole.peak * part / 10}
				if k, err := Choose(p, 1, c, m); !errors.Is(err, errEnough) || k != nil || m.live != 0 || m.blocks != 0 {
					t.Fatalf("batches of %d, %s, with %d bytes: %v, %d bytes left", b, name, m.refuse, err, m.live)
				}
			}
		}
	}
}

// TestAlmostWhole: a network reports if an almost whole value became another number.
func TestAlmostWhole(t *testing.T) {
	good := 0
	for seed := range uint64(400) {
		value := one * 3 / 4
		if seed%2 == 0 {
			value = one / 4
		}
		n := network{nodes: 3, near: one/4 + 1, scratch: &scratch{from: onHeap{}}}
		for v := range int32(3) { // only one of the arcs is no edge
			n.add(v, (v+1)%3, []int32{-1, v}[min((v+int32(seed/2))%3, 1)], value)
		}
		got := n.round(newCoin(seed, 0))
		if got != (n.value[0] == one == (seed%2 == 1)) {
			t.Errorf("seed %d: %d of %d becomes %d, and is that good: %t", seed, value, one, n.value[0], got)
		}
		if got {
			good++
		}
	}
	if good < 260 || good > 340 {
		t.Errorf("%d of 400 are good", good)
	}
}

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
