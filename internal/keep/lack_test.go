package keep

import (
	"github.com/batchfs/batchfs/internal/testkit"
	"github.com/batchfs/batchfs/shard"

	"math"
	"math/rand/v2"
	"testing"
)

// flow is a small maximum-flow problem, with nodes numbered from 0.
type flow struct {
	to, room []int
	out      [][]int
}

func newFlow(nodes int) *flow { return &flow{out: make([][]int, nodes)} }

func (f *flow) arc(from, to, room int) {
	f.out[from] = append(f.out[from], len(f.to))
	f.out[to] = append(f.out[to], len(f.to)+1)
	f.to, f.room = append(f.to, to, from), append(f.room, room, 0)
}

func (f *flow) push(at, sink int, seen []bool) bool {
	if at == sink {
		return true
	}
	seen[at] = true
	for _, a := range f.out[at] {
		if f.room[a] > 0 && !seen[f.to[a]] && f.push(f.to[a], sink, seen) {
			f.room[a]--
			f.room[a^1]++
			return true
		}
	}
	return false
}

// mostChosen is how many candidates can be chosen if no leaf chooses more than it may.
func mostChosen(g *graph, may func(valid int32) int) (most int) {
	source, sink := g.leaves(), g.leaves()+1
	f := newFlow(sink + 1)
	for leaf, valid := range g.valid {
		if g.side(leaf) == now {
			f.arc(source, leaf, may(valid))
		} else {
			f.arc(leaf, sink, may(valid))
		}
	}
	for i := range g.tail {
		if g.head[i] >= 0 {
			f.arc(int(g.tail[i]), int(g.head[i]), 1)
		}
	}
	for f.push(source, sink, make([]bool, len(f.out))) {
		most++
	}
	return most
}

// TestWhereCandidatesLack: if batches lack candidates, no set has more than ceil(r·d), and
// the total is close to a maximum flow in which no leaf has more than floor(r·d).
func TestWhereCandidatesLack(t *testing.T) {
	rng := rand.New(rand.NewPCG(23, 24))
	chosen, could := 0, 0
	for range 400 {
		p, epoch, r, c := randomKeep(t, rng, func(cfg *shard.Config, c *Config) {
			if rng.IntN(2) == 0 {
				c.LocalFrom = rng.IntN(cfg.Shards)
				c.LocalTo = c.LocalFrom + 1 + rng.IntN(cfg.Shards-c.LocalFrom)
			}
		})
		k := mustKeep(t, p, epoch, c)
		sets := account(p, epoch, c, k)
		for set, got := range sets {
			if got.kept > r.ceil(got.valid) {
				t.Fatalf("%s, epoch %d, %+v: %+v has %+v, want at most %d", describe(p.Config()), epoch, c, set, *got, r.ceil(got.valid))
			}
		}
		checkCounts(t, k, sets)
		testkit.Must(t, c.check(p, epoch))
		most := mostChosen(newGraph(p, epoch, c, &scratch{from: onHeap{}}), func(valid int32) int { return int(r.floor(int64(valid))) })
		kept := k.Count()
		if float64(kept) < 0.7*float64(most)-1 {
			t.Errorf("%s, epoch %d, %+v: keeps %d, could keep %d", describe(p.Config()), epoch, c, kept, most)
		}
		chosen, could = chosen+int(kept), could+most
	}
	if chosen < could {
		t.Errorf("keeps %d in all, could keep %d", chosen, could)
	}
}

// TestIsLevelWhereSomeLack: batches of common sizes are exactly level, even if some of
// their samples are not read in the other epoch, or not here.
func TestIsLevelWhereSomeLack(t *testing.T) {
	whole := ratio{3, 10}
	for name, test := range map[string]struct {
		cfg  shard.Config
		c    Config
		next bool // level only in the next epoch, which has more or fewer batches
	}{
		"drop":             {cfg: shard.Config{Samples: 5120, Shards: 3, BatchSize: 50, LastBatch: shard.Drop, PadLastBatch: true}},
		"drop, sticking":   {cfg: shard.Config{Samples: 5120, Shards: 3, BatchSize: 50, LastBatch: shard.Drop, PadLastBatch: true, StickToShard: true}},
		"drop, few":        {cfg: shard.Config{Samples: 1000, Shards: 4, BatchSize: 30, LastBatch: shard.Drop, PadLastBatch: true}},
		"fill, not padded": {cfg: shard.Config{Samples: 4000, Shards: 3, BatchSize: 50}, next: true},
		"local":            {cfg: shard.Config{Samples: 8000, Shards: 4, BatchSize: 100, PadLastBatch: true}, c: Config{LocalFrom: 1, LocalTo: 3}},
		"elastic":          {cfg: shard.Config{Samples: 8000, Shards: 4, BatchSize: 100, PadLastBatch: true, Partition: shard.Elastic}, c: Config{LocalFrom: 1, LocalTo: 3}},
		"placed":           {cfg: shard.Config{Samples: 8000, Shards: 4, BatchSize: 100, PadLastBatch: true, Partition: shard.Local}, c: Config{Ratio: 0.7, LocalFrom: 1, LocalTo: 2}},
		"placed, nodes":    {cfg: shard.Config{Samples: 8000, Shards: 4, BatchSize: 100, PadLastBatch: true, Partition: shard.Local, Nodes: 2}, c: Config{Ratio: 0.7, LocalFrom: 2, LocalTo: 4}},
		"local, sticking":  {cfg: shard.Config{Samples: 8000, Shards: 4, BatchSize: 100, PadLastBatch: true, StickToShard: true}, c: Config{LocalFrom: 3, LocalTo: 4}},
	} {
		t.Run(name, func(t *testing.T) {
			switch {
			case test.c.LocalTo == 0:
				test.c.Ratio = whole.float()
			case test.c.Ratio == 0:
				test.c.Ratio = 0.1
			}
			test.cfg.Shuffle, test.cfg.Seed = true, 5
			p := mustPlan(t, test.cfg)
			b := int64(test.cfg.BatchSize)
			want := int64(math.Round(test.c.Ratio * float64(b)))
			lacking := false
			for set, got := range account(p, 1, test.c, mustKeep(t, p, 1, test.c)) {
				if set.kind != "batch" || got.valid < b {
					continue
				}
				lacking = lacking || got.candidates < b
				if got.kept != want && (set.next || !test.next) {
					t.Errorf("%+v has %+v, want %d", set, *got, want)
				}
			}
			if !lacking {
				t.Error("no batch lacks candidates")
			}
		})
	}
}

// TestOfLocalShardsInOrder: without a shuffle, shards that move from range to range read
// whole batches again, or no part of them.
func TestOfLocalShardsInOrder(t *testing.T) {
	p := mustPlan(t, shard.Config{Samples: 400, Shards: 4, BatchSize: 10, PadLastBatch: true})
	c := Config{Ratio: 0.3, LocalFrom: 1, LocalTo: 3}
	k := mustKeep(t, p, 0, c)
	if all := k.Candidates(); all != 100 {
		t.Fatalf("%d candidates, want those of shard 2", all)
	}
	for set, got := range account(p, 0, c, k) {
		want := int64(0)
		if read := set.shard == 2 != set.next; set.kind == "batch" && read {
			want = 3
		}
		if set.kind == "batch" && got.kept != want {
			t.Errorf("%+v has %+v, want %d", set, *got, want)
		}
	}
}
