package shard

import (
	"math/rand/v2"
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
