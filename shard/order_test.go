package shard

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"math"
	"math/big"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// shuffled is a plan of one shard, with some raw samples; see rawEvery.
func shuffled(t testing.TB, n int64, seed uint64, every int64) *Plan {
	t.Helper()
	return mustPlan(t, Config{Samples: n, Shards: 1, BatchSize: 1, Shuffle: true, Seed: seed, Raw: rawEvery(n, every)})
}

// rawEvery has the samples whose ids are multiples of every; it is nil for 0.
func rawEvery(n, every int64) *RawSet {
	if every == 0 {
		return nil
	}
	return NewRawSet(n, func(id int64) bool { return id%every == 0 })
}

// TestGolden pins the order with golden vectors. An independent program, written from the
// package comment in another language, computed them.
//
// DO NOT UPDATE THEM LIGHTLY: a change here changes what every training run reads. If it is
// necessary, change OrderVersion too.
func TestGolden(t *testing.T) {
	if OrderVersion+windowed+mixedWindowed != "xor-feistel-8/1+window/1+window/2" {
		t.Error("a new OrderVersion needs new golden vectors, and they a new version")
	}
	type golden struct {
		Samples  int64   `json:"samples"`
		Seed     uint64  `json:"seed"`
		Epoch    int     `json:"epoch"`
		RawEvery int64   `json:"raw_every"`
		Window   int     `json:"window"`
		Blocks   []int64 `json:"blocks"`
		First    int64   `json:"first"`
		IDs      []int64 `json:"ids"`
	}
	eachLine(t, "testdata/order.jsonl", func(line int, g golden) {
		cfg, got := shuffled(t, g.Samples, g.Seed, g.RawEvery).cfg, []int64{}
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

// TestGoldenEpochs pins whole epochs by the SHA-256 of their ids (int64, little endian). The
// same warning applies.
func TestGoldenEpochs(t *testing.T) {
	for _, test := range []struct {
		rawEvery int64
		want     string
	}{
		{0, "956babcdd38c24ef558ffcdb35d43e9b60afda611da2dabe9e377cd3fa51ed6c"},
		{10, "ceec3e7eef2681b0cd2c500788fedf8fb5678578bd51209d1e37f70cd1d6ceee"},
	} {
		const n = 100_000
		order, data := shuffled(t, n, 7, test.rawEvery).order(3), []byte(nil)
		for p := range int64(n) {
			data = binary.LittleEndian.AppendUint64(data, uint64(order.id(p)))
		}
		sum := sha256.Sum256(data)
		if got := hex.EncodeToString(sum[:]); got != test.want {
			t.Errorf("raw every %d: %s, want %s", test.rawEvery, got, test.want)
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
		checkBijection(t, shuffled(t, n, 5, 0), int(n))
		checkBijection(t, shuffled(t, n, 5, 2+n%9), int(n))
	}
	for _, n := range []int64{511, 512, 513, 4095, 4096, 4097, 65_536, 100_003} {
		checkBijection(t, shuffled(t, n, 6, 0), 100_000)
		checkBijection(t, shuffled(t, n, 6, 10), 100_000)
	}
}

// TestSeedsAndEpochsDiffer: any two of these orders agree about as often as chance would have
// it, in 1 of n positions, and so do the two classes' permutations.
func TestSeedsAndEpochsDiffer(t *testing.T) {
	const n = 4000
	orders := []order{}
	for _, seed := range []uint64{0, 1, 2, 1 << 32, math.MaxUint64} {
		for _, epoch := range []int{0, 1, 2, 100_000} {
			orders = append(orders, shuffled(t, n, seed, 0).order(epoch))
		}
	}
	half := shuffled(t, 2*n, 0, 2).order(0)
	for _, one := range half.blend.orders {
		alone := newBlend([classes]int64{n}, func(int, uint64) permutation { return one })
		orders = append(orders, order{samples: n, shuffle: true, blend: alone})
	}
	for i := range orders {
		for j := range i {
			same := 0
			for p := range int64(n) {
				if orders[i].id(p) == orders[j].id(p) {
					same++
				}
			}
			if same > 10 {
				t.Errorf("orders %d and %d agree in %d of %d positions", i, j, same, n)
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

// TestFewSamplesTakeEveryOrder: all orders of a few samples are equally frequent, over seeds
// and over epochs.
func TestFewSamplesTakeEveryOrder(t *testing.T) {
	const rounds = 12_000
	for n, factorial := range map[int64]int{2: 2, 3: 6, 4: 24, 5: 120} {
		bySeed, byEpoch := make([]int, factorial), make([]int, factorial)
		for i := range rounds {
			bySeed[rankOf(shuffled(t, n, uint64(i), 0), 0)]++
			byEpoch[rankOf(shuffled(t, n, 1, 0), i)]++
		}
		for name, counts := range map[string][]int{"seeds": bySeed, "epochs": byEpoch} {
			if z := excess(counts, float64(rounds)/float64(factorial), factorial-1); z > 4 {
				t.Errorf("n %d over %s: chi-square is %.1f deviations above its mean", n, name, z)
			}
		}
	}
}

// rankOf numbers the orders of n samples.
func rankOf(p *Plan, epoch int) int {
	order, ids, rank := p.order(epoch), []int64{}, 0
	for i := range p.samples {
		ids = append(ids, order.id(i))
	}
	for i, id := range ids {
		below := 0
		for _, later := range ids[i+1:] {
			if later < id {
				below++
			}
		}
		rank = rank*(len(ids)-i) + below
	}
	return rank
}

// TestPositionsAreUniform: over many seeds every position holds every sample equally often,
// with one class and with two, and every sample is followed by every other equally often.
func TestPositionsAreUniform(t *testing.T) {
	const n, seeds = 48, 6000
	for _, rawEvery := range []int64{0, 4} {
		held, steps := make([]int, n*n), make([]int, n)
		for seed := range uint64(seeds) {
			order := shuffled(t, n, seed, rawEvery).order(int(seed % 7))
			before := order.id(n - 1)
			for p := range int64(n) {
				id := order.id(p)
				held[p*n+id]++
				steps[(id-before+n)%n]++
				before = id
			}
		}
		if rawEvery > 0 {
			checkClasses(t, held, n, seeds, rawEvery)
			continue
		}
		if z := excess(held, seeds/float64(n), (n-1)*(n-1)); z > 4 {
			t.Errorf("held: chi-square is %.1f deviations above its mean", z)
		}
		if z := excess(steps[1:], seeds*n/float64(n-1), n-2); z > 4 {
			t.Errorf("steps: chi-square is %.1f deviations above its mean", z)
		}
	}
}

// checkClasses splits the counts by class: raw positions hold only raw samples, equally often.
func checkClasses(t *testing.T, held []int, n, seeds, rawEvery int64) {
	t.Helper()
	raw, encoded, r := []int{}, []int{}, n/rawEvery
	for p := range n {
		rawPosition := (p+1)*r/n > p*r/n
		for id := range n {
			count := held[p*n+id]
			switch rawSample := id%rawEvery == 0; {
			case rawSample != rawPosition:
				if count != 0 {
					t.Fatalf("position %d holds sample %d of the other class", p, id)
				}
			case rawSample:
				raw = append(raw, count)
			default:
				encoded = append(encoded, count)
			}
		}
	}
	for _, class := range [][]int{raw, encoded} {
		size := math.Sqrt(float64(len(class)))
		if z := excess(class, float64(seeds)/size, int((size-1)*(size-1))); z > 4 {
			t.Errorf("class of %v: chi-square is %.1f deviations above its mean", size, z)
		}
	}
}

// TestEveryBatchHasTheSameMix: every full batch of every epoch has its share of raw samples, within
// one, even a batch that wraps around the end of the dataset. With windows, its share is that of
// the windows that its samples are in, and with local placement that of the dataset.
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
		share := rng.Float64()
		cfg.Raw = NewRawSet(cfg.Samples, func(int64) bool { return rng.Float64() < share })
		if !cfg.PadLastBatch {
			cfg.StickToShard = false // it would read one range repeatedly, not a window
		}
		p, epoch := mustPlan(t, cfg), rng.IntN(50)
		for shard := range cfg.Shards {
			for i := range p.Batches(shard, epoch) {
				slots, valid := p.Batch(shard, epoch, i, nil)
				raw, want, parts := 0, 0.0, 1.0
				for j, slot := range slots[:valid] {
					if p.windows != nil && j > 0 && slot.Epoch != slots[j-1].Epoch {
						parts++ // it has read on into the windows of another epoch
					}
					raw += cfg.Raw.class(slot.ID)
					want += rawShare(p, slot)
				}
				if math.Abs(float64(raw)-want) > parts-1e-9 {
					t.Fatalf("%s: batch %d of epoch %d has %d raw among %d, want about %.2f", describe(cfg), i, epoch, raw, valid, want)
				}
			}
		}
	}
}

// rawShare is the share of raw samples in the window of a slot, or in the dataset.
func rawShare(p *Plan, slot Slot) float64 {
	if p.windows == nil {
		return float64(p.cfg.Raw.Count()) / float64(p.samples)
	}
	order := p.order(slot.Epoch)
	order.id(slot.Position)
	w, raw := order.window, 0
	for place := w.first; place < w.end; place++ {
		block := int64(w.order.at(uint64(place)))
		for id := p.blocks.start(block); id < p.blocks.start(block+1); id++ {
			raw += p.cfg.Raw.class(id)
		}
	}
	return float64(raw) / float64(w.hi-w.lo)
}

// TestMixIsEvenOverClasses: of all classes, and whatever their counts, each has its share of any run
// of places to within one, or to within two where there are three, and each sample one place.
func TestMixIsEvenOverClasses(t *testing.T) {
	rng := rand.New(rand.NewPCG(15, 16))
	for range 300 {
		var counts [classes]int64
		n := int64(0)
		for class := range counts {
			counts[class] = rng.Int64N(60)
			n += counts[class]
		}
		b := newBlend(counts, func(class int, n uint64) permutation { return newPermutation(n, 1, 2, uint64(class)) })
		seen, held := map[[2]uint64]bool{}, make([][classes]float64, n+1)
		for p := range n {
			class, rank := b.at(uint64(p))
			if rank >= uint64(counts[class]) || seen[[2]uint64{uint64(class), rank}] {
				t.Fatalf("%v: place %d has sample %d of class %d, too large or twice", counts, p, rank, class)
			}
			seen[[2]uint64{uint64(class), rank}] = true
			held[p+1] = held[p]
			held[p+1][class]++
		}
		for to := range held {
			for from := range to {
				for class, count := range counts {
					if off := held[to][class] - held[from][class] - float64(count)*float64(to-from)/float64(n); math.Abs(off) > classes-1-1e-9 {
						t.Fatalf("%v: places %d to %d have %.2f too many of class %d", counts, from, to, off, class)
					}
				}
			}
		}
	}
}

// TestMixGoesOn: a job that goes on with another number of ranks, or nodes, reads the same samples in
// each step, and every sample once in an epoch.
func TestMixGoesOn(t *testing.T) {
	cfg := Config{Samples: 960, Shards: 8, BatchSize: 6, Shuffle: true, Seed: 5, PadLastBatch: true, Raw: rawEvery(960, 3)}
	for _, partition := range []Partition{Elastic, Local} {
		cfg.Partition = partition
		if cfg.Window = 0; partition == Elastic {
			cfg.Window, cfg.Blocks = 2, cuts(960, 40)
		}
		seen := map[int64]bool{}
		for step := range 20 {
			var before []int64
			for _, shards := range []int{8, 2, 1} {
				other := cfg
				other.Shards, other.BatchSize = shards, 48/shards
				p, ids := mustPlan(t, other), []int64{}
				for s := range shards {
					slots, valid := p.Batch(s, 3, step, nil)
					for _, slot := range slots[:valid] {
						ids = append(ids, slot.ID)
					}
				}
				if slices.Sort(ids); before != nil && !slices.Equal(ids, before) {
					t.Fatalf("%v: step %d has other samples with %d shards", partition, step, shards)
				}
				before = ids
			}
			for _, id := range before {
				seen[id] = true
			}
		}
		if len(seen) != 960 {
			t.Errorf("%v: an epoch has %d samples", partition, len(seen))
		}
	}
}

// TestOneClass: with samples of only one class, or without a shuffle, a RawSet changes nothing.
func TestOneClass(t *testing.T) {
	const n = 50
	for _, share := range []int64{0, n} {
		raw := NewRawSet(n, func(id int64) bool { return id < share })
		with := mustPlan(t, Config{Samples: n, Shards: 1, BatchSize: n, Shuffle: true, Raw: raw})
		without := mustPlan(t, Config{Samples: n, Shards: 1, BatchSize: n, Shuffle: true})
		a, _ := with.Batch(0, 1, 0, nil)
		b, _ := without.Batch(0, 1, 0, nil)
		if diff := cmp.Diff(b, a); diff != "" {
			t.Errorf("%d raw: %s", share, diff)
		}
	}
	raw := NewRawSet(n, func(id int64) bool { return id%2 == 0 })
	plain := mustPlan(t, Config{Samples: n, Shards: 1, BatchSize: n, Raw: raw})
	for position := range int64(n) {
		if plain.ID(4, position) != position {
			t.Fatalf("unshuffled position %d holds %d", position, plain.ID(4, position))
		}
	}
}

// TestSpread uses sizes whose products need 128 bits.
func TestSpread(t *testing.T) {
	for _, s := range []spread{{1, 2}, {3, 7}, {6, 7}, {1, maxSamples}, {maxSamples - 1, maxSamples}, {maxSamples/3 + 1, maxSamples}, {1 << 35, maxSamples - 1}} {
		for _, from := range []uint64{0, s.of / 3, s.of - min(s.of, 100)} {
			for p := from; p < min(from+100, s.of); p++ {
				before, after := chosenBefore(s, p), chosenBefore(s, p+1)
				want, wantRank := after > before, before
				if !want {
					wantRank = p - before
				}
				if chosen, rank := s.at(p); chosen != want || rank != wantRank {
					t.Fatalf("%+v: place %d is %v, rank %d, want %v, %d", s, p, chosen, rank, want, wantRank)
				}
			}
		}
		if chosen, rank := s.at(s.of - 1); !chosen || rank != s.chosen-1 {
			t.Errorf("%+v: the last place is %v, rank %d", s, chosen, rank)
		}
	}
}

// chosenBefore is floor(p·chosen/of).
func chosenBefore(s spread, p uint64) uint64 {
	product := new(big.Int).Mul(new(big.Int).SetUint64(p), new(big.Int).SetUint64(s.chosen))
	return product.Div(product, new(big.Int).SetUint64(s.of)).Uint64()
}
