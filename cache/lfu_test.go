package cache

import (
	"math/rand/v2"
	"testing"
)

// TestCounters: counters saturate, are halved from time to time, and are shared if there are
// more samples.
func TestCounters(t *testing.T) {
	l := lfu{counters: make([]uint8, 100)}
	for i := range 2 * halveAfter * 100 {
		id, want := uint32(7), min(i, 255)
		if i >= halveAfter*100 {
			want = min(127+i-halveAfter*100, 255)
		}
		if n := *l.counter(id); int(n) != want {
			t.Fatalf("%d after %d requests, want %d", n, i, want)
		}
		l.ask(id)
	}
	if *l.counter(107) != 127 || *l.counter(8) != 0 {
		t.Errorf("%d and %d requests", *l.counter(107), *l.counter(8))
	}
}

// TestColder: a sample takes the place of the one among the next few that is requested least,
// if that is requested clearly less often.
func TestColder(t *testing.T) {
	c := open(t, Options{Policy: TinyLFU, Limit: 1 << 20, Samples: 20})
	if c.colder(3) != 0 {
		t.Error("an empty cache has a victim")
	}
	for id := range int64(10) {
		c.Put(0, id, Stamp{}, nil) // counts 1
		*c.lfu.counter(uint32(id)) = []uint8{9, 8, 7, 6, 7, 5, 4, 3, 2, 1}[id]
	}
	id := func(n uint32) uint32 { return c.table.entries[n].id }
	*c.lfu.counter(15) = 7
	if n := c.colder(15); n != 0 {
		t.Errorf("%d is in the place of %d, requested once less", 15, id(n))
	}
	if n := c.colder(15); id(n) != 9 {
		t.Errorf("the coldest of samples 5 to 9 is %d", id(n))
	}
	*c.lfu.counter(15) = 8
	if n := c.colder(15); id(n) != 3 {
		t.Errorf("the coldest of samples 0 to 4 is %d", id(n))
	}
	mustCheck(t, c)
}

// TestTinyLFUKeepsWhatIsWanted: frequently requested samples are held, whatever else is read.
func TestTinyLFUKeepsWhatIsWanted(t *testing.T) {
	const n, hot, rounds = 2000, 50, 20_000
	src := equal(n, 20_000)
	c := open(t, Options{Policy: TinyLFU, Limit: 4 << 20, Samples: n})
	rng := rand.New(rand.NewPCG(1, 2))
	type count struct{ hits, asked int }
	var wanted, others count
	for round := range rounds {
		id := rng.Int64N(n)
		if round%5 == 0 {
			id = rng.Int64N(hot)
		}
		hit := read(t, c, 0, id, src.stamp(id))
		if round >= rounds/2 {
			of := &others
			if id < hot {
				of = &wanted
			}
			of.asked++
			if hit {
				of.hits++
			}
		}
		if round%1000 == 0 {
			mustCheck(t, c)
		}
	}
	t.Logf("hits of what is wanted most: %+v, of the rest: %+v", wanted, others)
	s := c.Stats()
	if s.Reserved > s.Limit || s.Samples < 100 {
		t.Errorf("%+v", s)
	}
	if wanted.hits < wanted.asked*99/100 || s.Epochs[0].NotKept == 0 {
		t.Errorf("hits of what is wanted most: %+v, of the rest: %+v; %+v", wanted, others, s.Epochs)
	}
}

// TestTinyLFUWhenMemoryIsShort: if the budget refuses to grow, the set of held samples still
// changes; if the budget grows, the memory is used.
func TestTinyLFUWhenMemoryIsShort(t *testing.T) {
	const n = 300
	src := unequal(n, 31)
	budget := newAccount(1 << 40)
	c := open(t, Options{Policy: TinyLFU, Limit: 4 << 20, Samples: n, Budget: budget})
	pass := func(times int) {
		for range times {
			for id := range int64(n) {
				read(t, c, 0, id, src.stamp(id))
			}
		}
		mustCheck(t, c)
	}
	budget.limit.Store(2 << 20)
	pass(3)
	if used := budget.used.Load(); used < 3<<19 || c.Stats().Samples == 0 {
		t.Errorf("%d bytes are used", used)
	}
	c.Trim(1 << 20)
	mustCheck(t, c)
	pass(2)
	first := c.Stats().Samples
	budget.limit.Store(1 << 40)
	pass(3)
	if s := c.Stats(); s.Reserved < 3<<20 || s.Samples < first {
		t.Errorf("%+v, had %d", s, first)
	}
	// New samples get in if nothing else is requested.
	budget.limit.Store(budget.used.Load())
	for range 12 {
		for id := range int64(40) {
			read(t, c, 0, id, src.stamp(id))
		}
	}
	mustCheck(t, c)
	held := 0
	for id := range int64(40) {
		if c.Holds(id) {
			held++
		}
	}
	if held < 20 {
		t.Errorf("%d of 40 wanted samples are held", held)
	}
}

// TestTinyLFUInEpochs: if every sample is read once an epoch, in any order, as many are hits as
// fit.
func TestTinyLFUInEpochs(t *testing.T) {
	const n, size = 500, 10_000
	src := equal(n, size)
	c := open(t, Options{Policy: TinyLFU, Limit: 2 << 20, Samples: n})
	fit := Room(TinyLFU, 2<<20, n) / Cost(size)
	for epoch := range 30 {
		for _, id := range rand.New(rand.NewPCG(uint64(epoch), 3)).Perm(n) {
			read(t, c, epoch, int64(id), src.stamp(int64(id)))
		}
		if e := c.Stats().Epochs[epoch]; epoch > 0 && e.Hits < fit*95/100 {
			t.Errorf("%+v, where %d fit", e, fit)
		}
	}
}
