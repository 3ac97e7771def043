package cache

import (
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
)

// TestConcurrentUse runs many readers through epochs while others drop, trim, replace and peek.
// Everything served is complete and matches its stamp, in one form or the other, the limit is never
// exceeded, and nothing is lost at the end.
func TestConcurrentUse(t *testing.T) {
	const readers, epochs, reads = 8, 4, 150
	other := func(id int64) int { return int(1000 + id*id) } // bytes of the other form
	var others [250][]byte
	for id := range others {
		others[id] = another(int64(id), other(int64(id)))
	}
	for _, p := range []Policy{Constant, Static, TinyLFU} {
		t.Run(p.String(), func(t *testing.T) {
			src := unequal(250, 21)
			copy(src.sizes, []int{0, 1, systemPage, systemPage + 1, 5 << 20}) // the last is more than fits
			budget := newAccount(2 << 20)
			c := open(t, Options{
				Policy: p, Limit: 3 << 20, Samples: int64(len(src.sizes)), Budget: budget,
				Plan: planFunc(func(epoch int, id int64) bool { return (int64(epoch)*3+id)%5 > 1 }),
			})
			var versions [250]atomic.Int64
			stamp := func(id int64) Stamp {
				s := src.stamp(id)
				s.ModTime += versions[id].Load()
				return s
			}
			var group sync.WaitGroup
			stop := make(chan struct{})
			disturb := func(f func(rng *rand.Rand)) {
				group.Go(func() {
					rng := rand.New(rand.NewPCG(5, 5))
					for {
						select {
						case <-stop:
							return
						default:
							f(rng)
							runtime.Gosched() // otherwise, what readers wait for runs late
						}
					}
				})
			}
			disturb(func(rng *rand.Rand) {
				c.Drop(rng.Int64N(250))
				versions[rng.IntN(250)].Add(1000)
			})
			disturb(func(rng *rand.Rand) { c.Trim(rng.Int64N(64 << 10)) })
			good := func(got []byte, id int64, s Stamp, packed bool) bool {
				if packed {
					return isAnother(got, id, other(id))
				}
				return int64(len(got)) == s.Size && verify(got, id, s) < 0
			}
			disturb(func(rng *rand.Rand) {
				id := rng.Int64N(250)
				c.Replace(id, stamp(id), others[id], 60_000)
			})
			disturb(func(rng *rand.Rand) {
				id := rng.Int64N(250)
				s := stamp(id)
				if got, packed, ok := c.Peek(id, s, make([]byte, s.Size), nil); ok && !good(got, id, s, packed) {
					t.Error("a peek at bytes of another sample")
				}
				if s := c.Stats(); s.Reserved > s.Limit || budget.used.Load() > budget.limit.Load() {
					t.Errorf("%+v", s)
				}
			})
			var readersGroup sync.WaitGroup
			for r := range readers {
				readersGroup.Go(func() {
					rng := rand.New(rand.NewPCG(uint64(r), 1))
					buf := make([]byte, 5<<20)
					for epoch := range epochs {
						for range reads {
							id := rng.Int64N(250)
							s := stamp(id)
							got, packed, hit := c.Get(epoch, id, s, buf, nil)
							if !hit {
								c.Put(epoch, id, s, content(id, s))
							} else if !good(got, id, s, packed) {
								t.Errorf("sample %d is wrong; packed: %v", id, packed)
							}
						}
					}
				})
			}
			readersGroup.Wait()
			close(stop)
			group.Wait()
			mustCheck(t, c)
			all := c.Stats()
			if all.Reserved > all.Limit || all.Reserved != budget.used.Load() || all.MaxReserved < all.Reserved || all.Real > all.Reserved {
				t.Errorf("%+v, %d charged", all, budget.used.Load())
			}
			var total EpochStats
			for _, e := range all.Epochs {
				total.Hits += e.Hits
				total.Misses += e.Misses
			}
			if total.Hits+total.Misses != readers*epochs*reads || total.Hits == 0 || total.Misses == 0 {
				t.Errorf("%+v of %d", total, readers*epochs*reads)
			}
			for id := range src.sizes {
				c.Drop(int64(id))
			}
			if s := c.Stats(); s.Samples != 0 || s.Real != 0 {
				t.Errorf("%+v when everything was dropped", s)
			}
			mustCheck(t, c)
			c.Close()
			if n := budget.used.Load(); n != 0 {
				t.Errorf("%d bytes are still charged", n)
			}
			if read(t, c, 0, 1, src.stamp(1)) || len(c.Stats().Epochs) != epochs {
				t.Error("after Close")
			}
		})
	}
}

// TestPagesAreNotReusedUnderAReader: a sample that is evicted while it is being copied keeps
// its memory until the copy is done.
func TestPagesAreNotReusedUnderAReader(t *testing.T) {
	src := equal(3, 100_000)
	for _, p := range []Policy{Constant, Static, TinyLFU} {
		limit := fixedBytes(p, 1<<30, 3) + 3*Cost(100_000)/2
		c := open(t, Options{Policy: p, Limit: limit, Samples: 3, Plan: planFunc(func(int, int64) bool { return true })})
		s := src.stamp(0)
		c.Put(0, 0, s, content(0, s))
		if !c.Holds(0) {
			t.Fatalf("%s: not kept", p)
		}
		got, _, ok := c.Get(1, 0, s, nil, func(n int) []byte { // while the sample is being copied
			c.Drop(0)
			if c.Holds(0) || c.Trim(1<<20) > 10*int64(systemPage) {
				t.Errorf("%s: what is read was given back", p)
			}
			c.Put(1, 1, src.stamp(1), content(1, src.stamp(1)))
			if c.Holds(1) {
				t.Errorf("%s: there is no room for two", p)
			}
			return make([]byte, n)
		})
		if !ok || verify(got, 0, s) >= 0 {
			t.Errorf("%s: wrong bytes", p)
		}
		mustCheck(t, c)
		c.Put(1, 1, src.stamp(1), content(1, src.stamp(1)))
		if !c.Holds(1) {
			t.Errorf("%s: its memory was lost", p)
		}
		mustCheck(t, c)
	}
}

// TestSteadyStateAllocatesNothing covers epochs with as many evictions as insertions.
func TestSteadyStateAllocatesNothing(t *testing.T) {
	if raceEnabled {
		t.Skip("SKIPPED: the race detector allocates")
	}
	const n = 64
	src := unequal(n, 3)
	keep := func(epoch int, id int64) bool { return (int64(epoch)+id)%2 == 0 }
	for _, p := range []Policy{Constant, Static} {
		c := open(t, Options{Policy: p, Limit: 32 << 20, Samples: n, Plan: planFunc(keep)})
		buf := make([]byte, 1<<20)
		data := make([]byte, 1<<20)
		epoch := 0
		readAll := func() {
			for id := range int64(n) {
				s := src.stamp(id)
				if _, _, hit := c.Get(epoch, id, s, buf, nil); !hit {
					c.Put(epoch, id, s, data[:s.Size])
				}
			}
		}
		for ; epoch < 8; epoch++ {
			readAll()
		}
		charged := c.Stats().Reserved
		allocs := testing.AllocsPerRun(10, func() {
			readAll()
			epoch = 7 + (epoch+1)%2 // two epochs in turn, so that counting them allocates nothing
		})
		if allocs > 0 {
			t.Errorf("%s: %v allocations an epoch", p, allocs)
		}
		if now := c.Stats().Reserved; now != charged {
			t.Errorf("%s: %d bytes charged, %d before", p, now, charged)
		}
	}
}
