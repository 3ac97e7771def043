package cache

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// TestRatioFits: at that ratio there is room for any samples that a plan may keep. If sizes are
// similar, little room is left over.
func TestRatioFits(t *testing.T) {
	for name, c := range map[string]struct {
		src   source
		limit int64
		least float64 // of limit / bytes of the dataset
	}{
		"photos":   {equal(1000, 100_000), 30 << 20, 0.97},
		"unequal":  {unequal(3000, 3), 32 << 20, 0.85},
		"tiny":     {equal(20_000, 700), 5 << 20, 0.6},
		"all fits": {equal(100, 1000), 64 << 20, 0},
		"nothing":  {equal(100, 1<<20), 100_000, 0},
	} {
		n := int64(len(c.src.sizes))
		bytes := int64(0)
		for _, s := range c.src.sizes {
			bytes += int64(s)
		}
		r := Ratio(c.limit, n, 1, func(id int64) (int64, int) { return int64(c.src.sizes[id]), 0 }, 4)
		if r < 0 || r > 1 || r < c.least*float64(c.limit)/float64(bytes) {
			t.Errorf("%s: ratio %v, cache is %v of the dataset", name, r, float64(c.limit)/float64(bytes))
		}
		for seed := range uint64(5) {
			cache := open(t, Options{
				Policy: Constant, Limit: c.limit, Samples: n,
				Plan: planFunc(func(int, int64) bool { return true }),
			})
			for _, id := range rand.New(rand.NewPCG(seed, 1)).Perm(int(n))[:int(r*float64(n))] {
				s := c.src.stamp(int64(id))
				cache.Put(0, int64(id), s, make([]byte, s.Size))
			}
			if s := cache.Stats(); s.Samples != int64(r*float64(n)) {
				t.Errorf("%s: %d samples fit of %d", name, s.Samples, int64(r*float64(n)))
			}
			cache.Close()
		}
	}
	if r := Ratio(1<<30, 100, 1, func(int64) (int64, int) { return -1, 0 }, 4); r != 1 {
		t.Errorf("unknown sizes: %v", r)
	}
	half := func(id int64) (int64, int) { return 100_000 - id%2*200_000, 0 } // every other size is unknown
	same := func(int64) (int64, int) { return 100_000, 0 }
	if r, all := Ratio(1<<20, 100, 1, half, 0), Ratio(1<<20, 100, 1, same, 0); r != all {
		t.Errorf("%v with half of the sizes, %v with all", r, all)
	}
}

// TestRatioOfKinds: if a plan keeps the same share of each kind, differences between kinds are not
// random and need no room.
func TestRatioOfKinds(t *testing.T) {
	const n, limit = 1000, 30 << 20
	for _, sizes := range [][]int64{{50_000, 50_000, 50_000, 250_000}, {20_000, 80_000, 20_000, 280_000}} {
		kinds := func(id int64) (int64, int) {
			size := sizes[id%4]
			return size, slices.Index(sizes, size)
		}
		mixed := func(id int64) (int64, int) { return sizes[id%4], 1 }
		mean := func(int64) (int64, int) { return 100_000, 0 }
		together, even, alike := Ratio(limit, n, 1, mixed, 0), Ratio(limit, n, 1, kinds, 0), Ratio(limit, n, 1, mean, 0)
		if together > 0.95*even || even < 0.99*alike || even > 1.01*alike {
			t.Errorf("%v: %v by chance, %v of each kind, %v where all are alike", sizes, together, even, alike)
		}
		// Samples in flight may be of the costliest kind.
		if few, all := Ratio(limit, n, 1, kinds, 10), Ratio(limit-10*Cost(sizes[3]), n, 1, kinds, 0); math.Abs(few-all) > 0.01*all {
			t.Errorf("%v: %v with 10 in flight, %v with so much less room", sizes, few, all)
		}
	}
}

// TestRatioOfEverything: if all samples fit, all are kept, however unequal they are.
func TestRatioOfEverything(t *testing.T) {
	src := unequal(3000, 3)
	size := func(id int64) (int64, int) { return int64(src.sizes[id]), 0 }
	all := int64(0)
	for _, s := range src.sizes {
		all += Cost(int64(s))
	}
	limit := all
	for Room(Constant, limit, 3000) < all {
		limit += all - Room(Constant, limit, 3000)
	}
	if r := Ratio(limit, 3000, 1, size, 10); r != 1 {
		t.Errorf("%v where there is room for all", r)
	}
	if r := Ratio(limit-limit/100, 3000, 1, size, 10); r >= 1 || r < 0.9 {
		t.Errorf("%v where there is not quite room for all", r)
	}
}

// TestRoomInALargeDataset: a cache's overhead depends on how many samples it can hold, not on the
// size of the dataset.
func TestRoomInALargeDataset(t *testing.T) {
	const limit = 8 << 20
	for p, least := range map[Policy]int64{Constant: limit * 97 / 100, Static: limit * 97 / 100, TinyLFU: limit*97/100 - 1<<20} {
		if room := Room(p, limit, math.MaxInt32); room < least {
			t.Errorf("%s has room for %d bytes", p, room)
		}
	}
}
