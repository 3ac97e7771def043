package shard

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// costsEvery makes ids that are multiples of raw raw, multiples of packed among the rest packed,
// and all others encoded. 0 has no multiples. It returns nil if both are 0.
func costsEvery(n, raw, packed int64) *Costs {
	if raw == 0 && packed == 0 {
		return nil
	}
	return NewCosts(n, func(id int64) Cost {
		switch {
		case raw > 0 && id%raw == 0:
			return Raw
		case packed > 0 && id%packed == 0:
			return Packed
		}
		return Encoded
	})
}

// randomCosts has one to three costs, in any proportion.
func randomCosts(rng *rand.Rand, n int64) *Costs {
	shares := [NumCosts]float64{}
	for cost := range shares {
		if rng.IntN(4) > 0 {
			shares[cost] = rng.Float64()
		}
	}
	sum := shares[Encoded] + shares[Packed] + shares[Raw]
	return NewCosts(n, func(int64) Cost {
		at := rng.Float64() * sum
		for cost, share := range shares {
			if at -= share; at < 0 {
				return Cost(cost)
			}
		}
		return Encoded
	})
}

func TestCosts(t *testing.T) {
	rng := rand.New(rand.NewPCG(13, 14))
	pick := func(of ...Cost) func(int64) Cost { return func(int64) Cost { return of[rng.IntN(len(of))] } }
	kinds := map[string]func(id int64) Cost{
		"encoded": pick(Encoded), "packed": pick(Packed), "raw": pick(Raw),
		"encoded and packed": pick(Encoded, Packed), "encoded and raw": pick(Encoded, Raw), "packed and raw": pick(Packed, Raw),
		"all":          pick(Encoded, Packed, Raw),
		"few encoded":  func(int64) Cost { return Cost(min(rng.IntN(700), 2)) },
		"few raw":      func(int64) Cost { return Cost(2 - min(rng.IntN(700), 2)) },
		"few packed":   func(int64) Cost { return [...]Cost{Packed, Encoded, Raw}[min(rng.IntN(700), 1+rng.IntN(2))] },
		"runs":         func(id int64) Cost { return Cost(id / 1500 % 3) },
		"raw at end":   func(id int64) Cost { return Cost(id / 4000 % 2 * 2) },
		"packed first": func(id int64) Cost { return [...]Cost{Packed, Encoded, Raw}[min(id/600, 2)] },
	}
	for name, costOf := range kinds {
		for _, n := range []int64{0, 1, 63, 64, 65, 511, 512, 513, 1024, 5000, 40_000} {
			want := []Cost{}
			costs := NewCosts(n, func(id int64) Cost {
				if id != int64(len(want)) {
					t.Fatalf("asked about %d, want %d", id, len(want))
				}
				want = append(want, costOf(id))
				return want[id]
			})
			checkCosts(t, name, costs, want)
		}
	}
}

func checkCosts(t *testing.T, name string, costs *Costs, want []Cost) {
	t.Helper()
	var counts [NumCosts]int64
	for i, cost := range want {
		id := int64(i)
		if before := costs.before(id); before != counts {
			t.Fatalf("%s, n %d: %v before sample %d, want %v", name, len(want), before, id, counts)
		}
		if costs.Of(id) != cost {
			t.Fatalf("%s, n %d: sample %d is %v, want %v", name, len(want), id, costs.Of(id), cost)
		}
		if found := costs.find(counts[cost], cost); found != id {
			t.Fatalf("%s, n %d: sample %d found at %d", name, len(want), id, found)
		}
		counts[cost]++
	}
	if n := int64(len(want)); costs.before(n) != counts || costs.Len() != n {
		t.Fatalf("%s: %v of %d, want %v of %d", name, costs.before(n), costs.Len(), counts, n)
	}
	present := []Cost{}
	for cost, count := range counts {
		if costs.Count(Cost(cost)) != count {
			t.Fatalf("%s, n %d: %d are %v, want %d", name, len(want), costs.Count(Cost(cost)), Cost(cost), count)
		}
		if count > 0 {
			present = append(present, Cost(cost))
		}
	}
	if !slices.Equal(costs.Present(), present) {
		t.Fatalf("%s, n %d: has %v, want %v", name, len(want), costs.Present(), present)
	}
}

// TestCostsTakeOneBitASample: two costs take one bit per sample, and a quarter of that for the
// search; one cost takes nothing.
func TestCostsTakeOneBitASample(t *testing.T) {
	const n = 1 << 16
	for _, test := range []struct{ raw, packed, most int64 }{{1, 0, 0}, {0, 1, 0}, {3, 0, 1}, {0, 3, 1}, {3, 1, 1}, {3, 2, 2}} {
		bytes := int64(0)
		for _, set := range costsEvery(n, test.raw, test.packed).sets {
			if set != nil {
				bytes += 8 * int64(cap(set.words)+len(set.ranks)+len(set.hints[in])+len(set.hints[out]))
			}
		}
		if most := test.most * n / 8 * 9 / 7; bytes > most {
			t.Errorf("every %d raw, every %d packed: %d bytes, want at most %d", test.raw, test.packed, bytes, most)
		}
	}
}
