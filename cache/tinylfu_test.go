package cache

import (
	"math/rand/v2"
	"runtime"
	"testing"
)

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
	if wanted.hits*others.asked < 4*others.hits*wanted.asked {
		t.Errorf("hits of what is wanted most: %+v, of the rest: %+v", wanted, others)
	}
	// With the race detector, the sync.Pool in which ristretto gathers requests drops many of them.
	// On one processor, its goroutine may not keep up.
	if !raceEnabled && runtime.GOMAXPROCS(0) > 1 && (wanted.hits < wanted.asked*9/10 || s.Epochs[0].NotKept == 0) {
		t.Errorf("hits of what is wanted most: %+v, of the rest: %+v; %+v", wanted, others, s.Epochs)
	}
}

// TestTinyLFUWhenMemoryIsShort: if the budget refuses to grow, the cache holds samples within it.
// If the budget grows, the cache uses the memory.
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
	budget.limit.Store(1 << 40)
	pass(3)
	if s := c.Stats(); s.Reserved < 3<<20 {
		t.Errorf("%+v", s)
	}
}

// TestTinyLFUKnowsWhatLeft: ristretto forgets samples that are dropped, changed or trimmed.
func TestTinyLFUKnowsWhatLeft(t *testing.T) {
	const n = 100
	src := equal(n, 20_000)
	c := open(t, Options{Policy: TinyLFU, Limit: 4 << 20, Samples: n})
	for round := range 20 {
		for id := range int64(n) {
			s := src.stamp(id)
			s.ModTime += int64(round) // another file
			c.Put(0, id, s, content(id, s))
		}
		c.Drop(int64(round))
		c.Trim(1 << 20)
		mustCheck(t, c)
	}
	for id := range int64(n) {
		c.Put(0, id, src.stamp(id), content(id, src.stamp(id)))
	}
	if s := c.Stats(); s.Samples != n || c.lfu.costs != s.Samples*Cost(20_000) || c.lfu.sets.MaxCost() > c.ledger.limit {
		t.Errorf("%+v, they cost %d", s, c.lfu.costs)
	}
}
