package cache

import "testing"

// TestUnknownIsNotKept: a sample read before the plan knows is not kept but counted, whether it
// came from storage or from the cache; a sample read afterwards is kept.
func TestUnknownIsNotKept(t *testing.T) {
	plan := latePlan{known: map[int]bool{0: true}}
	c := open(t, Options{Policy: Constant, Limit: 1 << 20, Samples: 4, Plan: plan})
	defer c.Close()
	s := source{sizes: []int{100, 200, 300, 400}}
	read(t, c, 0, 0, s.stamp(0))
	read(t, c, 0, 1, s.stamp(1))
	if !read(t, c, 1, 0, s.stamp(0)) {
		t.Error("sample 0 was not kept from epoch 0, whose plan is known")
	}
	read(t, c, 1, 2, s.stamp(2))
	c.Missed(1, 3)
	for _, id := range []int64{0, 2, 3} {
		if c.Holds(id) || c.Wants(1, id) {
			t.Errorf("sample %d is kept from epoch 1, whose plan is not known", id)
		}
	}
	plan.known[1] = true
	if !read(t, c, 1, 1, s.stamp(1)) || !c.Holds(1) {
		t.Error("sample 1 is not kept, though the plan of epoch 1 is known by now")
	}
	c.Missed(1, 3) // not offered because Wants said no, before the plan was known
	for _, e := range c.Stats().Epochs {
		want := EpochStats{Epoch: 0, Misses: 2, Kept: 2, KeptBytes: 300}
		if e.Epoch == 1 {
			want = EpochStats{Epoch: 1, Hits: 2, Misses: 3, Kept: 1, KeptBytes: 200, Unplanned: 4}
		}
		if e != want {
			t.Errorf("counted %+v, want %+v", e, want)
		}
	}
}
