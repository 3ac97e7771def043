package shard

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// shuffled is a plan of one shard, with some raw and packed samples; see costsEvery.
func shuffled(t testing.TB, n int64, seed uint64, raw, packed int64) *Plan {
	t.Helper()
	return mustPlan(t, Config{Samples: n, Shards: 1, BatchSize: 1, Shuffle: true, Seed: seed, Costs: costsEvery(n, raw, packed)})
}

// TestGolden pins the order with golden vectors. An independent program in another language
// computed them from the package comment.
//
// DO NOT UPDATE THEM LIGHTLY: a change here changes what every training run reads. If it is
// necessary, change OrderVersion too.
func TestGolden(t *testing.T) {
	if OrderVersion+windowed+mixedWindowed != "xor-feistel-8/1+window/1+window/2" {
		t.Error("a new OrderVersion needs new golden vectors, and they a new version")
	}
	type golden struct {
		Samples     int64   `json:"samples"`
		Seed        uint64  `json:"seed"`
		Epoch       int     `json:"epoch"`
		RawEvery    int64   `json:"raw_every"`
		PackedEvery int64   `json:"packed_every"`
		Window      int     `json:"window"`
		Blocks      []int64 `json:"blocks"`
		First       int64   `json:"first"`
		IDs         []int64 `json:"ids"`
	}
	eachLine(t, "testdata/order.jsonl", func(line int, g golden) {
		cfg, got := shuffled(t, g.Samples, g.Seed, g.RawEvery, g.PackedEvery).cfg, []int64{}
		cfg.Window, cfg.Blocks = g.Window, g.Blocks
		p := mustPlan(t, cfg)
		for i := range g.IDs {
			got = append(got, p.ID(g.Epoch, g.First+int64(i)))
		}
		if diff := cmp.Diff(g.IDs, got); diff != "" {
			t.Errorf("line %d: (-want +got)\n%s", line, diff)
		}
	})
}

// TestGoldenEpochs pins whole epochs by the SHA-256 of their ids (int64, little endian). The same
// warning applies.
func TestGoldenEpochs(t *testing.T) {
	for _, test := range []struct {
		raw, packed int64
		want        string
	}{
		{0, 0, "956babcdd38c24ef558ffcdb35d43e9b60afda611da2dabe9e377cd3fa51ed6c"},
		{10, 0, "ceec3e7eef2681b0cd2c500788fedf8fb5678578bd51209d1e37f70cd1d6ceee"},
		{0, 10, "1843afe0260b8970eb353375d497a45bcf9fc1483eebc6c35785098818bc5f5c"},
		{10, 3, "444295c0d3aa43909187b2f72e065228a0cec736699f8ddf3647f68d14911459"},
	} {
		const n = 100_000
		order, data := shuffled(t, n, 7, test.raw, test.packed).order(3), []byte(nil)
		for p := range int64(n) {
			data = binary.LittleEndian.AppendUint64(data, uint64(order.id(p)))
		}
		sum := sha256.Sum256(data)
		if got := hex.EncodeToString(sum[:]); got != test.want {
			t.Errorf("raw every %d, packed every %d: %s, want %s", test.raw, test.packed, got, test.want)
		}
	}
}

func checkBijection(t *testing.T, p *Plan, epoch int) {
	t.Helper()
	seen := make([]bool, p.samples)
	order := p.order(epoch)
	for position := range p.samples {
		id := order.id(position)
		if id < 0 || id >= p.samples || seen[id] {
			t.Fatalf("n %d, epoch %d: position %d holds %d, out of range or twice", p.samples, epoch, position, id)
		}
		seen[id] = true
	}
}

func TestOrderIsAPermutation(t *testing.T) {
	for n := int64(1); n <= 300; n++ {
		checkBijection(t, shuffled(t, n, 5, 0, 0), int(n))
		checkBijection(t, shuffled(t, n, 5, 2+n%9, n%4), int(n))
	}
	for _, n := range []int64{511, 512, 513, 4095, 4096, 4097, 65_536, 100_003} {
		for _, packed := range []int64{0, 3} {
			checkBijection(t, shuffled(t, n, 6, 0, packed), 100_000)
			checkBijection(t, shuffled(t, n, 6, 10, packed), 100_000)
		}
	}
	for _, costOf := range []func(id int64) Cost{ // few of one cost, runs, and blocks of 512 of one cost
		func(id int64) Cost { return Cost(min(id*2654435761%700, 2)) }, func(id int64) Cost { return Cost(2 - min(id*2654435761%700, 2)) },
		func(id int64) Cost { return Cost(id / 1500 % 3) }, func(id int64) Cost { return Cost(id / 4000 % 2 * 2) },
		func(id int64) Cost { return [...]Cost{Packed, Encoded, Raw}[min(id/600, 2)] },
	} {
		const n = 40_000
		p := mustPlan(t, Config{Samples: n, Shards: 1, BatchSize: 1, Shuffle: true, Seed: 6, Costs: NewCosts(n, costOf)})
		checkBijection(t, p, 3)
		for id := range int64(n) {
			if p.costs.Of(id) != costOf(id) {
				t.Fatalf("sample %d is %v, not %v", id, p.costs.Of(id), costOf(id))
			}
		}
	}
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

// TestPositionsAreUniform: over many seeds every position holds every sample of its cost equally
// often. If there is only one cost, every sample is followed by every other equally often.
func TestPositionsAreUniform(t *testing.T) {
	const n, seeds = 48, 6000
	for _, every := range [][2]int64{{0, 0}, {4, 0}, {4, 3}} {
		held, steps := make([]int, n*n), make([]int, n)
		for seed := range uint64(seeds) {
			order := shuffled(t, n, seed, every[0], every[1]).order(int(seed % 7))
			before := order.id(n - 1)
			for p := range int64(n) {
				id := order.id(p)
				held[p*n+id]++
				steps[(id-before+n)%n]++
				before = id
			}
		}
		checkHeld(t, held, n, seeds, costsEvery(n, every[0], every[1]))
		if z := excess(steps[1:], seeds*n/float64(n-1), n-2); every == [2]int64{} && z > 4 {
			t.Errorf("steps: chi-square is %.1f deviations above its mean", z)
		}
	}
}

// checkHeld splits the counts by cost: a position holds only samples of its cost, equally often.
func checkHeld(t *testing.T, held []int, n, seeds int64, costs *Costs) {
	t.Helper()
	var byCost [NumCosts][]int
	for p, cost := range costsAt(costs.before(n)) {
		for id := range n {
			count := held[int64(p)*n+id]
			if costs.Of(id) == cost {
				byCost[cost] = append(byCost[cost], count)
			} else if count != 0 {
				t.Fatalf("position %d holds sample %d, which is %v, not %v", p, id, costs.Of(id), cost)
			}
		}
	}
	for _, cost := range costs.Present() {
		size := math.Sqrt(float64(len(byCost[cost])))
		if z := excess(byCost[cost], float64(seeds)/size, int((size-1)*(size-1))); z > 4 {
			t.Errorf("%v of %v: chi-square is %.1f deviations above its mean", size, cost, z)
		}
	}
}

// costsAt is the cost of each position, following the package comment literally.
func costsAt(counts [NumCosts]int64) []Cost {
	left := []int{}
	for range counts[Encoded] + counts[Packed] + counts[Raw] {
		left = append(left, len(left))
	}
	at := make([]Cost, len(left)) // encoded
	for _, cost := range []Cost{Raw, Packed} {
		rest, c, l := []int{}, int(counts[cost]), len(left)
		for q, position := range left {
			if (q+1)*c/l > q*c/l {
				at[position] = cost
			} else {
				rest = append(rest, position)
			}
		}
		left = rest
	}
	return at
}

// TestEveryBatchHasTheSameMix: every full batch of every epoch has its share of each cost, within
// one sample for two costs and within two for three, even if the batch wraps around the end of the
// dataset. With windows, the share is that of its windows. With local placement, it is that of the
// dataset.
func TestEveryBatchHasTheSameMix(t *testing.T) {
	rng := rand.New(rand.NewPCG(11, 12))
	for range 600 {
		cfg := randomConfig(rng)
		if rng.IntN(2) == 0 {
			cfg = randomSteps(rng)
		}
		cfg.Shuffle = true
		if cfg.Partition == Ranges {
			cfg.Window, cfg.Blocks = rng.IntN(9), cuts(cfg.Samples, rng.Int64N(50))
		}
		cfg.Costs = randomCosts(rng, cfg.Samples)
		if !cfg.PadLastBatch {
			cfg.StickToShard = false // it would read one range repeatedly, not a window
		}
		p, epoch := mustPlan(t, cfg), rng.IntN(50)
		for shard := range cfg.Shards {
			for i := range p.Batches(shard, epoch) {
				slots, valid := p.Batch(shard, epoch, i, nil)
				checkMix(t, p, slots[:valid])
			}
		}
	}
}

// checkMix checks the mix of a batch.
func checkMix(t *testing.T, p *Plan, slots []Slot) {
	t.Helper()
	var has, want [NumCosts]float64
	parts := 1
	for j, slot := range slots {
		if p.windows != nil && j > 0 && slot.Epoch != slots[j-1].Epoch {
			parts++ // it has read on into the windows of another epoch
		}
		has[p.cfg.Costs.Of(slot.ID)]++
		for cost, share := range mixAt(p, slot) {
			want[cost] += share
		}
	}
	most := float64(parts * (len(p.cfg.Costs.Present()) - 1))
	for cost := range has {
		if off := math.Abs(has[cost] - want[cost]); off > max(0, most-1e-9) && off > 1e-9 {
			t.Fatalf("%s: of %d from %+v on, %v are %v, want about %.2f", describe(p.cfg), len(slots), slots[0], has[cost], Cost(cost), want[cost])
		}
	}
}

// mixAt is the share of each cost in the window of a slot, or in the dataset.
func mixAt(p *Plan, slot Slot) (share [NumCosts]float64) {
	if p.windows == nil {
		for cost := range share {
			share[cost] = float64(p.cfg.Costs.Count(Cost(cost))) / float64(p.samples)
		}
		return share
	}
	order := p.order(slot.Epoch)
	order.id(slot.Position)
	w := order.window
	for place := w.first; place < w.end; place++ {
		block := int64(w.order.at(uint64(place)))
		for id := p.blocks.start(block); id < p.blocks.start(block+1); id++ {
			share[p.cfg.Costs.Of(id)] += 1 / float64(w.hi-w.lo)
		}
	}
	return share
}

// TestMixIsEvenOverCosts: whatever their counts, each cost has its share of any run of places to
// within one, or to within two if there are three costs, and each sample has one place.
func TestMixIsEvenOverCosts(t *testing.T) {
	rng := rand.New(rand.NewPCG(15, 16))
	for range 300 {
		var counts [NumCosts]int64
		n, present := int64(0), 0
		for cost := range counts {
			if counts[cost] = max(0, rng.Int64N(80)-20); counts[cost] > 0 {
				n, present = n+counts[cost], present+1
			}
		}
		b := newBlend(counts, func(cost Cost, n uint64) permutation { return newPermutation(n, 1, 2, uint64(cost)) })
		seen, held, want := map[[2]uint64]bool{}, make([][NumCosts]float64, n+1), costsAt(counts)
		for p := range n {
			cost, rank := b.at(uint64(p))
			if cost != want[p] {
				t.Fatalf("%v: place %d is %v, want %v", counts, p, cost, want[p])
			}
			if rank >= uint64(counts[cost]) || seen[[2]uint64{uint64(cost), rank}] {
				t.Fatalf("%v: place %d has %v sample %d, too large or twice", counts, p, cost, rank)
			}
			seen[[2]uint64{uint64(cost), rank}] = true
			held[p+1] = held[p]
			held[p+1][cost]++
		}
		for to := range held {
			for from := range to {
				for cost, count := range counts {
					if off := held[to][cost] - held[from][cost] - float64(count)*float64(to-from)/float64(n); math.Abs(off) > max(1e-9, float64(present-1)-1e-9) {
						t.Fatalf("%v: places %d to %d have %.2f too many %v ones", counts, from, to, off, Cost(cost))
					}
				}
			}
		}
	}
}

// TestOneCost: with samples of only one cost, whichever it is, or without a shuffle, costs change
// nothing.
func TestOneCost(t *testing.T) {
	const n = 50
	without := mustPlan(t, Config{Samples: n, Shards: 1, BatchSize: n, Shuffle: true})
	for _, cost := range []Cost{Encoded, Packed, Raw} {
		with := mustPlan(t, Config{Samples: n, Shards: 1, BatchSize: n, Shuffle: true, Costs: NewCosts(n, func(int64) Cost { return cost })})
		a, _ := with.Batch(0, 1, 0, nil)
		b, _ := without.Batch(0, 1, 0, nil)
		if diff := cmp.Diff(b, a); diff != "" || with.Version() != without.Version() {
			t.Errorf("all are %v, in order %s: %s", cost, with.Version(), diff)
		}
	}
	plain := mustPlan(t, Config{Samples: n, Shards: 1, BatchSize: n, Costs: costsEvery(n, 2, 3)})
	for position := range int64(n) {
		if plain.ID(4, position) != position {
			t.Fatalf("unshuffled position %d holds %d", position, plain.ID(4, position))
		}
	}
}

// TestWindowsMixWholeBlocks: an epoch is divided into windows of at most W blocks, each holding
// exactly the samples of its blocks. Over the epochs, the blocks of a window change.
func TestWindowsMixWholeBlocks(t *testing.T) {
	rng := rand.New(rand.NewPCG(51, 52))
	for range 100 {
		cfg := Config{Samples: 1 + rng.Int64N(3000), Shards: 1, BatchSize: 1, Shuffle: true, Seed: rng.Uint64(), Window: 1 + rng.IntN(12)}
		if rng.IntN(4) > 0 {
			cfg.Blocks = cuts(cfg.Samples, rng.Int64N(200))
		}
		cfg.Costs = costsEvery(cfg.Samples, rng.Int64N(4), rng.Int64N(4))
		p, epoch := mustPlan(t, cfg), rng.IntN(1000)
		checkBijection(t, p, epoch)
		order := p.order(epoch)
		for at := int64(0); at < cfg.Samples; at = order.window.hi {
			order.id(at)
			w, seen := order.window, map[int64]int64{}
			for position := w.lo; position < w.hi; position++ {
				seen[p.Block(order.id(position))]++
			}
			if w.lo != at || len(seen) > cfg.Window {
				t.Fatalf("%+v: the window at %d begins at %d, with %d blocks", cfg, at, w.lo, len(seen))
			}
			for block, n := range seen {
				if size := p.blocks.start(block+1) - p.blocks.start(block); n != size {
					t.Fatalf("%+v: %d of the %d samples of block %d are in the window at %d", cfg, n, size, block, at)
				}
			}
		}
	}
}

// TestWindowsAreUniform: every position of a window holds each of its samples equally often, and
// every place in the order holds each block equally often.
func TestWindowsAreUniform(t *testing.T) {
	const blocks, size, window, epochs = 6, 4, 2, 3000
	held, placed := make([]int, window*size*window*size), make([]int, blocks*blocks)
	p := mustPlan(t, Config{Samples: blocks * size, Shards: 1, BatchSize: 1, Shuffle: true, Window: window, Blocks: slices.Repeat([]int64{size}, blocks)})
	for epoch := range epochs {
		order := p.order(epoch)
		for at := range int64(window * size) {
			id := order.id(at)
			// Number samples by the place of their block in this epoch.
			for place := range int64(window) {
				if int64(order.window.order.at(uint64(place))) == id/size {
					held[at*window*size+place*size+id%size]++
				}
			}
		}
		for place := range blocks {
			placed[place*blocks+int(order.window.order.at(uint64(place)))]++
		}
	}
	if z := excess(held, epochs/float64(window*size), (window*size-1)*(window*size-1)); z > 4 {
		t.Errorf("held: chi-square is %.1f deviations above its mean", z)
	}
	if z := excess(placed, epochs/float64(blocks), (blocks-1)*(blocks-1)); z > 4 {
		t.Errorf("placed: chi-square is %.1f deviations above its mean", z)
	}
}

// TestWindowsRemember: remembered epochs change no result, even if several goroutines ask for many
// epochs.
func TestWindowsRemember(t *testing.T) {
	cfg := Config{Samples: 500, Shards: 2, BatchSize: 10, Shuffle: true, Seed: 3, Window: 3, Blocks: cuts(500, 40)}
	shared, wait := mustPlan(t, cfg), sync.WaitGroup{}
	for worker := range 4 {
		wait.Go(func() {
			rng := rand.New(rand.NewPCG(53, uint64(worker)))
			for range 300 {
				epoch, position := rng.IntN(12), rng.Int64N(cfg.Samples)
				if want := mustPlan(t, cfg).ID(epoch, position); shared.ID(epoch, position) != want {
					t.Errorf("epoch %d, position %d: not sample %d", epoch, position, want)
				}
			}
		})
	}
	wait.Wait()
}
