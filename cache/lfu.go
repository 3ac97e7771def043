package cache

import (
	"fmt"
	"math/bits"
	"sync"

	"github.com/dgraph-io/ristretto/v2"
)

// lfu lets ristretto decide which samples are held. Ristretto sees only numbers and costs.
//
// Ristretto applies updates later, and discards some under load, so by itself it neither stays
// within a budget nor knows what it holds. Here only one sample is decided at a time, and store
// waits for the decision, so ristretto's view of what is held is correct whenever mu is free.
// Its budget is reset for each decision, to what is held plus the new sample if there is memory
// for it, because the memory that the cache's Budget grants can shrink at any moment.
type lfu struct {
	cache *Cache
	sets  *ristretto.Cache[uint64, struct{}]

	mu       sync.Mutex // held while samples come or leave; taken before Cache.mu
	rejected bool       // the verdict on the current sample
}

const (
	// countersPerSample: ristretto recommends tracking more items than it holds, but a dataset
	// has a fixed number of samples.
	countersPerSample = 4
	// lfuSlot is the size, in bytes, of a slot in ristretto's two hash tables, of the samples
	// and of their costs.
	lfuSlot = 72
	// lfuBase is ristretto's constant overhead in bytes: its queue, and what Go's garbage
	// collector needs for its garbage.
	lfuBase = 1 << 20
)

// lfuFixed is what ristretto takes for a dataset, in bytes: four rows of half a byte and a
// filter of ten bits per counter, all rounded up to powers of two.
func lfuFixed(samples int64) int64 {
	n := uint64(max(countersPerSample*samples, 1))
	counters := int64(1) << bits.Len64(n-1)
	filter := int64(1) << bits.Len64(10*n-1) / 8
	return lfuBase + 2*counters + filter
}

// lfuTables is what ristretto's hash tables take once n samples have been held, in bytes: they
// double, and never shrink. Each consists of many of Go's tables, whose slots are a power of
// two. Deleted slots count as full until there are many, so with samples coming and going a
// table doubles when 0.62 to 0.74 of its slots are taken. The tables double one after another,
// because chance fills them unequally.
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

// evicted removes a sample that ristretto evicted to make room, or every sample at the end.
// Ristretto calls it while the goroutine that holds mu waits.
func (l *lfu) evicted(id uint32) {
	c := l.cache
	c.mu.Lock()
	defer c.mu.Unlock()
	if n := c.table.find(id); n != 0 {
		c.evict(n)
	}
}

// forget tells ristretto that a sample was removed. The caller holds mu.
func (l *lfu) forget(id uint32) { l.sets.Del(uint64(id)) }

// asked records a request for a sample.
func (l *lfu) asked(id uint32) { l.sets.Get(uint64(id)) }

// store keeps a sample if ristretto admits it.
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

// settle carries out the decision about a sample; n is the entry allocated for it, or 0.
func (l *lfu) settle(n uint32, admitted bool, id uint32, s Stamp, data []byte) bool {
	c := l.cache
	c.mu.Lock()
	if admitted && n == 0 {
		n = c.place(s.Size) // its victims have left, unless they are being read
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

// admits asks ristretto whether to hold a sample, when all samples together may cost at most
// most. When it returns, the victims have left.
func (l *lfu) admits(id uint32, cost, most int64) bool {
	l.rejected = false
	l.sets.UpdateMaxCost(most)
	if !l.sets.Set(uint64(id), struct{}{}, cost) {
		return false
	}
	l.sets.Wait()
	return !l.rejected
}
