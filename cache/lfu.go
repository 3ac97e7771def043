package cache

import (
	"fmt"
	"math/bits"
	"sync"

	"github.com/dgraph-io/ristretto/v2"
)

// lfu lets ristretto decide which samples are held. It sees numbers and costs only.
//
// Ristretto applies what it is told later, and forgets some of it when much is said
// at once, so that by itself it neither keeps a budget nor says what it holds. Here
// one sample at a time is decided on, and waited for: what ristretto believes to be
// held and what is held are the same whenever mu is free. Its budget is set anew for
// each decision, to what is held, and to the new sample if there is memory for it:
// whoever grants memory may grant less from one moment to the next.
type lfu struct {
	cache *Cache
	sets  *ristretto.Cache[uint64, struct{}]

	mu       sync.Mutex // held while samples come or leave; before Cache.mu
	rejected bool       // what became of the sample that is decided on
}

const (
	// countersPerSample: ristretto wants to know more samples than it holds, but a
	// dataset has no more than it has.
	countersPerSample = 4
	// lfuSlot is what a slot of ristretto's hash tables takes: one of the samples
	// themselves, one of their costs.
	lfuSlot = 72
	// lfuBase is what ristretto takes whatever it holds: its queue, and what Go's
	// collector needs for the garbage that it makes.
	lfuBase = 1 << 20
)

// lfuFixed is what ristretto takes for a dataset: four rows of half a byte and a
// filter of ten bits a counter, all rounded up to powers of two.
func lfuFixed(samples int64) int64 {
	n := uint64(max(countersPerSample*samples, 1))
	counters := int64(1) << bits.Len64(n-1)
	filter := int64(1) << bits.Len64(10*n-1) / 8
	return lfuBase + 2*counters + filter
}

// lfuTables is what ristretto's hash tables take once n samples have been held, in
// bytes: they double, and never shrink. Each is many tables of Go's, whose slots are
// a power of two. A slot that was emptied counts as a full one until there are many,
// so that where samples come and go a table doubles when 0.62 to 0.74 of its slots
// are taken; the tables do so one after another, since chance fills them unequally.
func lfuTables(n int64) int64 {
	const first, last = 0.62, 0.74
	slots := max(int64(1)<<bits.Len64(uint64(max(n, 1)-1)), 2048)
	doubled := (float64(n)/float64(slots) - first) / (last - first)
	return int64(lfuSlot * float64(slots) * (1 + min(max(doubled, 0), 1)))
}

func newLFU(c *Cache, samples int64) (*lfu, error) {
	l := &lfu{cache: c}
	sets, err := ristretto.NewCache(&ristretto.Config[uint64, struct{}]{
		NumCounters: max(countersPerSample*samples, 1), MaxCost: 1, BufferItems: 64, IgnoreInternalCost: true,
		OnReject: func(*ristretto.Item[struct{}]) { l.rejected = true },
		OnEvict:  func(i *ristretto.Item[struct{}]) { l.evicted(uint32(i.Key)) },
	})
	if err != nil {
		return nil, fmt.Errorf("cache: %w", err)
	}
	l.sets = sets
	return l, nil
}

func (l *lfu) close() { l.sets.Close() }

// evicted makes a sample leave that had to make room, or all of them at the end.
// Ristretto calls it while somebody who holds mu waits.
func (l *lfu) evicted(id uint32) {
	c := l.cache
	c.mu.Lock()
	defer c.mu.Unlock()
	if n := c.table.find(id); n != 0 {
		c.evict(n)
	}
}

// forget tells ristretto that a sample has left; mu is held.
func (l *lfu) forget(id uint32) { l.sets.Del(uint64(id)) }

// asked notes that somebody wanted a sample.
func (l *lfu) asked(id uint32) { l.sets.Get(uint64(id)) }

// store keeps a sample if ristretto wants it.
func (l *lfu) store(id uint32, s Stamp, data []byte) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	c := l.cache
	c.mu.Lock()
	n := c.table.find(id)
	if n != 0 && c.table.entries[n].stamp == s {
		c.mu.Unlock()
		return true
	}
	other := n != 0
	if other {
		c.evict(n)
	}
	n = c.place(s.Size)
	most := c.costs
	if n != 0 {
		most += c.cost(s.Size)
	}
	c.mu.Unlock()
	if other {
		l.forget(id)
	}
	admitted := l.admits(id, c.cost(s.Size), most)
	return l.settle(n, admitted, id, s, data)
}

// settle does what was decided about a sample that memory was taken for, or none (0).
func (l *lfu) settle(n uint32, admitted bool, id uint32, s Stamp, data []byte) bool {
	c := l.cache
	c.mu.Lock()
	if admitted && n == 0 {
		n = c.place(s.Size) // those that had to leave for it have left, if nobody reads them
	}
	if n == 0 || !admitted {
		if n != 0 {
			c.release(n)
		}
		c.mu.Unlock()
		if admitted {
			l.forget(id)
		}
		return false
	}
	where := c.table.entries[n].chain
	c.mu.Unlock()

	c.arena.write(where, data)

	c.mu.Lock()
	defer c.mu.Unlock()
	c.publish(n, id, s, forever)
	return true
}

// admits asks ristretto whether a sample shall be held, when all of them may cost
// that much. When it returns, those that have to leave for it have left.
func (l *lfu) admits(id uint32, cost, most int64) bool {
	l.rejected = false
	l.sets.UpdateMaxCost(most)
	if !l.sets.Set(uint64(id), struct{}{}, cost) {
		return false
	}
	l.sets.Wait()
	return !l.rejected
}
