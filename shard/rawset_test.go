package shard

import (
	"math/rand/v2"
	"testing"
)

func TestRawSet(t *testing.T) {
	rng := rand.New(rand.NewPCG(13, 14))
	kinds := map[string]func(id int64) bool{
		"none":   func(int64) bool { return false },
		"all":    func(int64) bool { return true },
		"half":   func(int64) bool { return rng.IntN(2) == 0 },
		"few":    func(int64) bool { return rng.IntN(700) == 0 },
		"most":   func(int64) bool { return rng.IntN(700) != 0 },
		"runs":   func(id int64) bool { return id/1500%2 == 0 },
		"at end": func(id int64) bool { return id > 4000 },
	}
	for name, isRaw := range kinds {
		for _, n := range []int64{0, 1, 63, 64, 65, 511, 512, 513, 1024, 5000, 40_000} {
			asked := int64(0)
			want := []bool{}
			set := NewRawSet(n, func(id int64) bool {
				if id != asked {
					t.Fatalf("asked about %d, want %d", id, asked)
				}
				asked++
				want = append(want, isRaw(id))
				return want[id]
			})
			checkRawSet(t, name, set, want)
		}
	}
}

func checkRawSet(t *testing.T, name string, set *RawSet, want []bool) {
	t.Helper()
	n := int64(len(want))
	count := int64(0)
	for id := range n {
		if before := set.before(id); before != [classes]int64{encoded: id - count, raw: count} {
			t.Fatalf("%s, n %d: %v before sample %d, want %d raw", name, n, before, id, count)
		}
		if set.Contains(id) != want[id] {
			t.Fatalf("%s, n %d: sample %d raw %v, want %v", name, n, id, set.Contains(id), want[id])
		}
		found := int64(0)
		if want[id] {
			found = set.find(count, raw)
			count++
		} else {
			found = set.find(id-count, encoded)
		}
		if found != id {
			t.Fatalf("%s, n %d: sample %d found at %d", name, n, id, found)
		}
	}
	if set.before(n)[raw] != count || set.Count() != count || set.Len() != n {
		t.Fatalf("%s: Count %d of %d, want %d of %d", name, set.Count(), set.Len(), count, n)
	}
	if set.Contains(-1) || set.Contains(n) {
		t.Fatalf("%s, n %d: holds what does not exist", name, n)
	}
}
