package cache

import "testing"

func TestBuffers(t *testing.T) {
	s := Stamp{Size: 10_000, ModTime: 1}
	c := open(t, Options{Policy: Constant, Limit: 1 << 20, Samples: 3, Plan: planFunc(func(e int, _ int64) bool { return e == 0 })})
	c.Put(0, 1, s, content(1, s))
	asked := 0
	refuse := func(n int) []byte { asked = n; return nil }
	if _, _, ok := c.Get(1, 1, s, make([]byte, 9999), refuse); ok || asked != 10_000 {
		t.Errorf("no memory given, %d asked for", asked)
	}
	if _, _, ok := c.Get(1, 1, s, nil, nil); ok {
		t.Error("no memory at all")
	}
	if !c.Holds(1) || c.Stats().Epochs[0].Hits != 0 || len(c.Stats().Epochs) != 1 {
		t.Errorf("a reader without memory consumed the sample: %+v", c.Stats())
	}
	asked = 0
	buf := make([]byte, 0, 10_000)
	got, _, ok := c.Get(1, 1, s, buf, refuse)
	if !ok || asked != 0 || len(got) != 10_000 || &got[0] != &buf[:1][0] || verify(got, 1, s) >= 0 {
		t.Errorf("with a buffer: %d bytes, %d asked for", len(got), asked)
	}
	if c.Holds(1) {
		t.Error("the plan keeps nothing in epoch 1")
	}
	mustCheck(t, c)
	defer func() {
		if recover() == nil {
			t.Error("a sample of another length than its stamp's was taken")
		}
	}()
	c.Put(0, 1, s, make([]byte, 9999))
}

// TestPeekCountsNothing: a Peek leaves no trace.
func TestPeekCountsNothing(t *testing.T) {
	s := Stamp{Size: 100, ModTime: 1}
	c := open(t, Options{Policy: Constant, Limit: 1 << 20, Samples: 3, Plan: planFunc(func(e int, _ int64) bool { return e == 0 })})
	if _, _, ok := c.Peek(1, s, make([]byte, 100), nil); ok {
		t.Error("nothing was put")
	}
	c.Put(0, 1, s, content(1, s))
	before := c.Stats()
	for range 3 {
		if got, _, ok := c.Peek(1, s, make([]byte, 100), nil); !ok || verify(got, 1, s) >= 0 {
			t.Error("not found")
		}
	}
	if after := c.Stats(); after.Epochs[0] != before.Epochs[0] || len(after.Epochs) != 1 {
		t.Errorf("%+v", after)
	}
	if !read(t, c, 1, 1, s) {
		t.Error("it was consumed")
	}
}

// TestEpochsAreBounded: the per-epoch counters do not grow with the number of epochs.
func TestEpochsAreBounded(t *testing.T) {
	var m meter
	for epoch := range 10 * maxEpochs {
		m.epoch(epoch).Hits++
	}
	if n := len(m.epochs); n != maxEpochs || cap(m.epochs) > 2*maxEpochs || m.epochs[n-1].Epoch != 10*maxEpochs-1 {
		t.Errorf("%d epochs, room for %d, the last is %d", n, cap(m.epochs), m.epochs[n-1].Epoch)
	}
}
