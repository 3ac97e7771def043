package shard

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestGoldenSteps pins each shard's part of a step. An independent program in another language
// computed the vectors from the package comment. As in TestGolden, they must not be updated
// lightly.
func TestGoldenSteps(t *testing.T) {
	if placed+mixedPlaced != "+local/1+local/2" {
		t.Error("a new version needs new golden vectors, and they a new version")
	}
	type golden struct {
		Samples     int64   `json:"samples"`
		Shards      int     `json:"shards"`
		BatchSize   int     `json:"batch_size"`
		Partition   string  `json:"partition"`
		Nodes       int     `json:"nodes"`
		Blocks      []int64 `json:"blocks"`
		LastBatch   string  `json:"last_batch"`
		Shuffle     bool    `json:"shuffle"`
		Seed        uint64  `json:"seed"`
		RawEvery    int64   `json:"raw_every"`
		PackedEvery int64   `json:"packed_every"`
		Epoch       int     `json:"epoch"`
		Shard       int     `json:"shard"`
		Batch       int     `json:"batch"`
		Positions   []int64 `json:"positions"`
		IDs         []int64 `json:"ids"`
		Valid       int     `json:"valid"`
	}
	eachLine(t, "testdata/steps.jsonl", func(line int, g golden) {
		p := mustPlan(t, Config{
			Samples: g.Samples, Shards: g.Shards, BatchSize: g.BatchSize, Nodes: g.Nodes, Blocks: g.Blocks, Shuffle: g.Shuffle, Seed: g.Seed, PadLastBatch: true, Costs: costsEvery(g.Samples, g.RawEvery, g.PackedEvery),
			Partition: map[string]Partition{"elastic": Elastic, "local": Local}[g.Partition],
			LastBatch: map[string]LastBatch{"fill": Fill, "partial": Partial, "drop": Drop}[g.LastBatch],
		})
		slots, valid := p.Batch(g.Shard, g.Epoch, g.Batch, nil)
		positions, ids := []int64{}, []int64{}
		for _, slot := range slots {
			positions, ids = append(positions, slot.Position), append(ids, slot.ID)
		}
		if diff := cmp.Diff(g.Positions, positions) + cmp.Diff(g.IDs, ids); diff != "" || valid != g.Valid {
			t.Errorf("line %d: %d valid, want %d (-want +got)\n%s", line, valid, g.Valid, diff)
		}
	})
}

// stepOf returns all valid slots of a step, by their positions.
func stepOf(p *Plan, epoch, batch int) (all []Slot) {
	for shard := range p.cfg.Shards {
		slots, valid := p.Batch(shard, epoch, batch, nil)
		all = append(all, slots[:valid]...)
	}
	slices.SortFunc(all, func(a, b Slot) int { return int(a.Position - b.Position) })
	return all
}

// TestStepsAreTheSameForAnyWorld: for any number of shards and nodes, and any placement, the shards
// together have exactly the positions of the step, with the same samples, in parts that differ in
// size by at most one. A job can go on with another number of them.
func TestStepsAreTheSameForAnyWorld(t *testing.T) {
	rng := rand.New(rand.NewPCG(41, 42))
	for range 300 {
		cfg := randomSteps(rng)
		global, epoch, order := int64(cfg.Shards*cfg.BatchSize), rng.IntN(1000), mustPlan(t, cfg)
		for _, shards := range []int{cfg.Shards, 1, 2, 3, 4, 6} {
			if global%int64(shards) != 0 || int64(shards) > cfg.Samples {
				continue
			}
			other := cfg
			other.Shards, other.BatchSize = shards, int(global)/shards
			if shards != cfg.Shards {
				other.Nodes = 0
			}
			p := mustPlan(t, other)
			for step := range p.Batches(0, epoch) {
				lo := int64(step) * global
				want := []Slot{}
				for at := lo; at < min(lo+global, cfg.Samples); at++ {
					want = append(want, Slot{Position: at, ID: order.ID(epoch, at), Epoch: epoch})
				}
				if got := stepOf(p, epoch, step); !slices.Equal(got, want) {
					t.Fatalf("%s, epoch %d: step %d has %v", describe(other), epoch, step, got)
				}
				for shard := range shards {
					if _, valid := p.Size(shard, epoch, step); valid < len(want)/shards || valid > (len(want)+shards-1)/shards {
						t.Fatalf("%s: shard %d has %d of %d", describe(other), shard, valid, len(want))
					}
				}
			}
		}
	}
}

// TestNodesTakeWhatTheyOwnFirst: a node gets another node's sample only if it already has all of
// its own samples of the same cost in the step, so it owns fewer than it gets.
func TestNodesTakeWhatTheyOwnFirst(t *testing.T) {
	rng := rand.New(rand.NewPCG(43, 44))
	for range 300 {
		cfg := randomSteps(rng)
		if cfg.Partition != Local {
			continue
		}
		p, epoch := mustPlan(t, cfg), rng.IntN(1000)
		for step := range p.Batches(0, epoch) {
			lo, hi := p.step(step)
			type counts [NumCosts]int
			has, owned, own := make([]counts, cfg.Nodes), make([]counts, cfg.Nodes), make([]counts, cfg.Nodes)
			for at := lo; at < hi; at++ {
				id := p.ID(epoch, at)
				owned[p.owners.owner(id)][p.costs.Of(id)]++
			}
			for shard := range cfg.Shards {
				slots, valid := p.Batch(shard, epoch, step, nil)
				node := shard / (cfg.Shards / cfg.Nodes)
				for i, slot := range slots[:valid] {
					cost := p.costs.Of(slot.ID)
					has[node][cost]++
					own[node][cost] += p.Owned(shard, slots[i:i+1])
				}
			}
			for v := range own {
				for cost := range own[v] {
					if own[v][cost] != min(has[v][cost], owned[v][cost]) {
						t.Fatalf("%s, epoch %d, step %d: node %d has %v, %v its own, and owns %v", describe(cfg), epoch, step, v, has[v], own[v], owned[v])
					}
				}
			}
		}
	}
}

// TestNodesOwnWholeBlocks: every sample has one owner, samples of a block have the same owner, and
// no node owns more than one block too much or too little.
func TestNodesOwnWholeBlocks(t *testing.T) {
	rng := rand.New(rand.NewPCG(45, 46))
	for range 200 {
		cfg := Config{Samples: 1 + rng.Int64N(400), Shards: 1, BatchSize: 1, Shuffle: true, PadLastBatch: true, Partition: Local}
		cfg.Shards = 1 + rng.IntN(int(min(cfg.Samples, 20)))
		cfg.Blocks = cuts(cfg.Samples, rng.Int64N(30))
		p, owned, id := mustPlan(t, cfg), make([]int64, cfg.Shards), int64(0)
		for _, size := range cfg.Blocks {
			for i := range size {
				v := p.owners.owner(id)
				if owned[v]++; i > 0 && v != p.owners.owner(id-1) {
					t.Fatalf("%+v: samples %d and %d of one block have two owners", cfg, id-1, id)
				}
				id++
			}
		}
		for v, n := range owned {
			if off := n - cfg.Samples/int64(cfg.Shards); off > slices.Max(cfg.Blocks)+1 || off < -slices.Max(cfg.Blocks)-1 {
				t.Fatalf("%+v: node %d owns %d samples", cfg, v, n)
			}
		}
	}
}

// TestShareThatMoves compares a simulation with the formula in the package comment.
func TestShareThatMoves(t *testing.T) {
	for _, test := range []struct {
		shards, nodes, batch int
		raw, packed          int64 // one sample in so many is
	}{{8, 8, 64, 0, 0}, {16, 4, 16, 0, 0}, {100, 100, 16, 0, 0}, {2, 2, 256, 0, 0}, {8, 8, 64, 2, 0}, {8, 8, 256, 5, 0}, {8, 8, 256, 3, 2}} {
		n := int64(test.shards) * int64(test.batch) * 40
		p := mustPlan(t, Config{Samples: n, Shards: test.shards, Nodes: test.nodes, BatchSize: test.batch, Shuffle: true, Seed: 1, PadLastBatch: true, Partition: Local, Costs: costsEvery(n, test.raw, test.packed)})
		moved, steps := 0, 0
		for epoch := range 2 {
			for step := range p.Batches(0, epoch) {
				steps++
				for shard := range test.shards {
					slots, _ := p.Batch(shard, epoch, step, nil)
					moved += len(slots) - p.Owned(shard, slots)
				}
			}
		}
		each := float64(test.shards*test.batch) / float64(test.nodes)
		want := math.Sqrt((1 - 1/float64(test.nodes)) / (2 * math.Pi * each))
		want *= math.Sqrt(1 - 1.0/40) // a step is this fraction of an epoch, in which nothing is drawn twice
		roots := 0.0
		for _, count := range p.costs.before(n) {
			roots += math.Sqrt(float64(count) / float64(n))
		}
		want *= roots
		got := float64(moved) / float64(steps*test.shards*test.batch)
		// The absolute value of a normal variable has a standard deviation of 0.756 of its mean,
		// and all nodes of a step but one are nearly independent.
		if off := (got - want) / want * math.Sqrt(float64(steps*(test.nodes-1))) / 0.756; math.Abs(off) > 4 {
			t.Errorf("%+v: %.4f are fetched, want %.4f", test, got, want)
		}
	}
}

// TestStepLimits: the largest plans with steps or windows do not overflow.
func TestStepLimits(t *testing.T) {
	large := slices.Repeat([]int64{maxSamples / 1024}, 1024)
	for _, cfg := range []Config{
		{Shards: 1 << 20, BatchSize: 2047, Partition: Elastic}, {Shards: 7, BatchSize: 1000, Partition: Elastic, Window: 3, Blocks: large},
		{Shards: 8, BatchSize: 1000, Partition: Local}, {Shards: 1, BatchSize: 100, Window: 1024, Blocks: large},
	} {
		cfg.Samples, cfg.Shuffle, cfg.PadLastBatch = maxSamples, true, true
		p, shard, epoch := mustPlan(t, cfg), cfg.Shards-1, MaxEpochs-1
		last := p.Batches(shard, epoch) - 1
		slots, valid := p.Batch(shard, epoch, last, nil)
		if len(slots) != cfg.BatchSize || valid == 0 || cfg.Partition != Local && slots[valid-1].Position != maxSamples-1 {
			t.Errorf("%d shards of %d: %d of %d slots are valid", cfg.Shards, cfg.BatchSize, valid, len(slots))
		}
		checkSlots(t, p, shard, slots, valid)
	}
}
