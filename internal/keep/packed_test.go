package keep

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/batchfs/batchfs/internal/testkit"
	"github.com/batchfs/batchfs/shard"
)

// TestPackedHits: from epoch to epoch, each batch has its share of packed hits, to within one, and
// all of its hits; samples stay packed while they are kept; and no more are packed than leave.
func TestPackedHits(t *testing.T) {
	rng := rand.New(rand.NewPCG(41, 42))
	plans := 9
	if testing.Short() {
		plans = 3
	}
	for range plans {
		cfg := shard.Config{Samples: 6000 + rng.Int64N(6000), Shards: 1 + rng.IntN(4), BatchSize: 64 + rng.IntN(100), Shuffle: true, Seed: rng.Uint64(), PadLastBatch: true}
		if rng.IntN(3) == 0 {
			raw := rng.Int64N(4)
			cfg.Costs = shard.NewCosts(cfg.Samples, func(id int64) shard.Cost {
				if id*2654435761%10 < raw {
					return shard.Raw
				}
				return shard.Encoded
			})
		}
		r, share, p := keepRatios[rng.IntN(6)], 0.1+0.9*rng.Float64(), mustPlan(t, cfg)
		if r.float() > 0.8 {
			r = ratio{4, 5}
		}
		var before *Choice
		for epoch := range 4 {
			c := Config{Ratio: r.float(), Packed: before.Packs, PackedShare: share}
			k := mustKeep(t, p, epoch, c)
			encoded, packed, anew := int64(0), int64(0), int64(0)
			for id := range cfg.Samples {
				switch {
				case k.Packs(id) && (!k.Kept(id) || cfg.Costs.Of(id) != shard.Encoded), before.Packs(id) && k.Kept(id) && !k.Packs(id):
					t.Fatalf("%s, epoch %d, %+v: sample %d is packed before: %v, kept: %v, packed: %v", describe(cfg), epoch, c, id, before.Packs(id), k.Kept(id), k.Packs(id))
				case k.Packs(id) && !before.Packs(id):
					anew++
				}
				if k.Packs(id) {
					packed++
				}
				if k.Kept(id) && cfg.Costs.Of(id) == shard.Encoded {
					encoded++
				}
			}
			if k.Packed() != packed || math.Abs(float64(packed)-share*float64(encoded)) > 1 {
				t.Errorf("%s, epoch %d, %+v: %d of %d are packed, and Packed says %d", describe(cfg), epoch, c, packed, encoded, k.Packed())
			}
			if leave := (1 - r.float()) * float64(packed); epoch > 0 && float64(anew) > 1.2*leave+float64(cfg.Shards) {
				t.Errorf("%s, epoch %d, %+v: %d are packed anew, where %.0f leave", describe(cfg), epoch, c, anew, leave)
			}
			for set, got := range account(p, epoch, c, k) {
				if got.kept < r.floor(got.valid) || got.kept > r.ceil(got.valid) {
					t.Errorf("%s, epoch %d, %+v: %+v has %+v", describe(cfg), epoch, c, set, *got)
				}
			}
			for batch, n := range packedHits(p, epoch+1, k) {
				if want := share * float64(n.hits); math.Abs(float64(n.packed)-want) >= 1 {
					t.Errorf("%s, epoch %d, %+v: batch %v has %+v, of which %.2f are to be packed", describe(cfg), epoch+1, c, batch, n, want)
				}
			}
			before = k
		}
	}
}

// packedHits counts hits of samples that are not raw in full batches, which are named by shard and
// number.
func packedHits(p *shard.Plan, epoch int, k *Choice) map[[2]int]packing {
	hits, cfg := map[[2]int]packing{}, p.Config()
	readFirst(p, epoch, Config{LocalTo: cfg.Shards}, func(id int64, x, batch int, _ bool) {
		if n := hits[[2]int{x, batch}]; k.Kept(id) && cfg.Costs.Of(id) == shard.Encoded && batch < p.Batches(x, epoch)-1 {
			n.hits++
			if k.Packs(id) {
				n.packed++
			}
			hits[[2]int{x, batch}] = n
		}
	})
	return hits
}

// TestPackedWhereAllIsKept: nothing leaves, so packed samples stay the same.
func TestPackedWhereAllIsKept(t *testing.T) {
	p := mustPlan(t, shard.Config{Samples: 3000, Shards: 2, BatchSize: 50, Shuffle: true, Seed: 7, PadLastBatch: true})
	c := Config{Ratio: 1, PackedShare: 0.4}
	first := mustKeep(t, p, 0, c)
	c.Packed = first.Packs
	second := mustKeep(t, p, 1, c)
	for id := range int64(3000) {
		if !second.Kept(id) || first.Packs(id) != second.Packs(id) {
			t.Fatalf("sample %d is kept: %v, packed: %v, then %v", id, second.Kept(id), first.Packs(id), second.Packs(id))
		}
	}
}

// TestPackedInAnyPlan: whatever is packed already, no set of slots has more than ceil(r·d), and all
// batches together keep as much as they should.
func TestPackedInAnyPlan(t *testing.T) {
	rng := rand.New(rand.NewPCG(43, 44))
	for range 200 {
		p, epoch, r, c := randomKeep(t, rng, func(cfg *shard.Config, _ *Config) {
			cfg.PadLastBatch, cfg.LastBatch = true, shard.LastBatch(rng.IntN(2))
		})
		already, share := rng.Float64(), rng.Uint64()
		c.Packed = func(id int64) bool { return rand.New(rand.NewPCG(uint64(id), share)).Float64() < already }
		c.PackedShare = []float64{0, 1, rng.Float64(), rng.Float64()}[rng.IntN(4)]
		k := mustKeep(t, p, epoch, c)
		sets := account(p, epoch, c, k)
		checkCounts(t, k, sets)
		for set, got := range sets {
			if got.kept > r.ceil(got.valid) || set.kind == "all" && float64(got.kept) < 0.9*float64(r.floor(got.valid))-1 {
				t.Errorf("%s, epoch %d, %+v, %v packed: %+v has %+v, want %d", describe(p.Config()), epoch, c, already, set, *got, r.ceil(got.valid))
			}
		}
	}
}

// TestMemoryOfPacked: Needs and Size cover what a choice with packed samples takes.
func TestMemoryOfPacked(t *testing.T) {
	for _, b := range []int{2, 32, 256} {
		cfg := shard.Config{Samples: 8_000, Shards: 7, BatchSize: b, Shuffle: true, Seed: 7, PadLastBatch: true}
		p, m := mustPlan(t, cfg), &metered{}
		c := Config{Ratio: 0.3, PackedShare: 0.5, Packed: mustKeep(t, p, 0, Config{Ratio: 0.3, PackedShare: 0.5}).Packs}
		k, err := Choose(p, 1, c, m)
		testkit.Must(t, err)
		if most := Needs(p, c); m.peak > most || m.peak < most/14 || m.live != 0 {
			t.Errorf("batches of %d: took %d bytes, Needs says %d; %d are left", b, m.peak, most, m.live)
		}
		if got := int64(cap(k.words)+cap(k.packed)) * 8; got != 2*Size(p) {
			t.Errorf("holds %d bytes, Size says %d", got, Size(p))
		}
	}
}
