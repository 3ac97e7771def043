package cache

import (
	"math"
	"testing"
)

// another is a form of a sample, of size bytes.
func another(id int64, size int) []byte {
	p := make([]byte, size)
	fill(p, id, Stamp{ModTime: -1})
	return p
}

func isAnother(p []byte, id int64, size int) bool {
	return len(p) == size && verify(p, id, Stamp{ModTime: -1}) < 0
}

func always(int, int64) bool { return true }

// TestReplace: the replacement is served instead of the sample, under the file's stamp, and leaves
// with it.
func TestReplace(t *testing.T) {
	keep := true
	plan := planFunc(func(int, int64) bool { return keep })
	c := open(t, Options{Policy: Constant, Limit: 1 << 20, Samples: 4, Plan: plan})
	s, grow := Stamp{Size: 10_000, ModTime: 1}, func(n int) []byte { return make([]byte, n) }
	if c.Replace(1, s, another(1, 9000), math.MaxInt64) {
		t.Error("a sample that is not held was replaced")
	}
	for id := range int64(3) {
		read(t, c, 0, id, s)
	}
	grows := Cost(12_000) - Cost(10_000)
	if c.Replace(1, s, another(1, 12_000), grows-1) || c.Replace(1, Stamp{Size: 10_000, ModTime: 2}, nil, 1<<20) || !c.Holds(0) {
		t.Error("a sample was replaced by more than may be, or one of another version")
	}
	if c.Holds(1) {
		t.Error("a version that is no longer there is held")
	}
	read(t, c, 0, 1, s)
	if !c.Replace(1, s, another(1, 12_000), grows) || !c.Replace(2, s, another(2, 6000), 0) {
		t.Fatal("samples were not replaced")
	}
	if c.Replace(1, s, another(1, 100), math.MaxInt64) {
		t.Error("a sample was replaced twice")
	}
	mustCheck(t, c)
	if st := c.Stats(); st.Packed != 2 || st.Grown != c.Grown() || st.Grown >= grows || st.Real != 28_000 {
		t.Errorf("%+v", st)
	}
	for epoch := range 2 {
		for id, size := range []int{10_000, 12_000, 6000} {
			got, packed, ok := c.Get(1+epoch, int64(id), s, nil, grow)
			good := verify(got, int64(id), s) < 0
			if id > 0 {
				good = isAnother(got, int64(id), size)
			}
			if !ok || packed != (id > 0) || !good {
				t.Errorf("sample %d: %d bytes, packed: %v, %v", id, len(got), packed, ok)
			}
		}
	}
	keep = false
	for id := range int64(3) {
		c.Get(3, id, s, nil, grow)
	}
	mustCheck(t, c)
	if st := c.Stats(); st.Samples != 0 || st.Packed != 0 || st.Grown != 0 || st.Real != 0 {
		t.Errorf("after the last reader: %+v", st)
	}
	var none *Cache
	if none.Replace(1, s, nil, 0) || none.Grown() != 0 {
		t.Error("a nil Cache replaced a sample")
	}
}

// TestReplaceNeedsRoom: without room for its other form, a sample stays as it is, and so do all
// others. A sample that is being read is not replaced.
func TestReplaceNeedsRoom(t *testing.T) {
	c := open(t, Options{Policy: Constant, Limit: 200_000, Samples: 64, Plan: planFunc(always)})
	s, held := Stamp{Size: 9000}, int64(0)
	for id := range int64(64) {
		read(t, c, 0, id, s)
	}
	held = c.Stats().Samples
	if held == 64 || held < 10 {
		t.Fatalf("%d samples are held", held)
	}
	if c.Replace(0, s, another(0, 50_000), math.MaxInt64) || c.Stats().Samples != held {
		t.Error("a sample was replaced without room")
	}
	_, _, ok := c.Peek(0, s, nil, func(n int) []byte {
		if c.Replace(0, s, another(0, 10), math.MaxInt64) {
			t.Error("a sample was replaced while it was read")
		}
		return make([]byte, n)
	})
	if !ok || !read(t, c, 1, 0, s) {
		t.Error("the sample is gone")
	}
	mustCheck(t, c)
}
