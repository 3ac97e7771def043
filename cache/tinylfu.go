package cache

import (
	"fmt"
	"sync"

	"github.com/dgraph-io/ristretto/v2"
)

// A tinylfu lets ristretto decide which samples are held, for the policy TinyLFU. Ristretto sees
// only numbers and costs. The samples are stored as for the other policies.
//
// Ristretto works asynchronously, and drops some of its input under load, so on its own it neither
// keeps to a budget nor reports what it holds. Here it decides on one sample at a time, and put
// waits for each decision. The memory that the cache may use changes at any time, so before each
// decision ristretto's limit is set to the cost of the held samples, plus the new sample if there
// is memory for it.
type tinylfu struct {
	cache    *Cache
	counters int64
	sets     *ristretto.Cache[uint64, struct{}]

	mu       sync.Mutex // held while ristretto decides; before Cache.mu
	rejected bool       // the sample being decided on

	// Guarded by Cache.mu.
	costs int64    // of the held samples
	left  []uint32 // samples no longer held, which ristretto does not know yet
}

const (
	// countersPerHeld limits ristretto's counters, relative to the number of samples that fit:
	// counters for a large dataset must not fill a small cache.
	countersPerHeld = 8
	// counterCost is the bytes of a counter: four of half a byte, and its share of a filter,
	// rounded up to powers of two.
	counterCost = 5
	// lfuBase is ristretto's memory when empty, mostly its queue.
	lfuBase = 400 << 10
	// lfuEntryCost is ristretto's memory per sample, in two of Go's maps, which grow by doubling.
	lfuEntryCost = 200
)

func countersFor(limit, samples int64) int64 {
	return max(1, min(samples, countersPerHeld*mostSamples(limit, samples)))
}

// lfuBytes is the memory of an empty tinylfu.
func lfuBytes(p Policy, limit, samples int64) int64 {
	if p != TinyLFU {
		return 0
	}
	return lfuBase + counterCost*countersFor(limit, samples)
}

func newTinyLFU(c *Cache, counters int64) (*tinylfu, error) {
	l := &tinylfu{cache: c, counters: counters}
	var err error
	l.sets, err = ristretto.NewCache(&ristretto.Config[uint64, struct{}]{
		NumCounters: counters, MaxCost: 1, BufferItems: 64, IgnoreInternalCost: true,
		OnReject: func(*ristretto.Item[struct{}]) { l.rejected = true },
		OnEvict:  func(i *ristretto.Item[struct{}]) { l.evicted(uint32(i.Key)) },
	})
	if err != nil {
		return nil, fmt.Errorf("cache: %w", err)
	}
	return l, nil
}

func (l *tinylfu) close() {
	if l != nil {
		l.sets.Close()
	}
}

// ask records a request for a sample.
func (l *tinylfu) ask(id uint32) {
	if l != nil {
		l.sets.Get(uint64(id))
	}
}

// entryCost is charged for a sample in addition to its entry in the table.
func (l *tinylfu) entryCost() int64 {
	if l == nil {
		return 0
	}
	return lfuEntryCost
}

// came and leaves note changes of the held samples, which ristretto must learn of. The caller holds
// Cache.mu.
func (l *tinylfu) came(size int64) {
	if l != nil {
		l.costs += Cost(size)
	}
}

func (l *tinylfu) leaves(id uint32, size int64) {
	if l != nil {
		l.costs -= Cost(size)
		l.left = append(l.left, id)
	}
}

// evicted evicts a sample to make room for another. Ristretto calls it while put waits.
func (l *tinylfu) evicted(id uint32) {
	c := l.cache
	c.mu.Lock()
	defer c.mu.Unlock()
	if n := c.table.find(id); n != 0 {
		c.evict(n)
	}
}

// put keeps a sample if ristretto wants it, and reports whether it did.
func (l *tinylfu) put(id uint32, s Stamp, data []byte) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	c := l.cache
	l.ask(id)
	c.mu.Lock()
	held := c.renew(id, s, forever)
	n, most := uint32(0), l.costs
	if !held {
		if n = c.place(s.Size); n != 0 {
			most += Cost(s.Size)
		}
	}
	left := l.left
	l.left = nil
	c.mu.Unlock()
	for _, id := range left {
		l.sets.Del(uint64(id))
	}
	if held {
		return true
	}
	admitted := Cost(s.Size) <= c.ledger.limit && l.admits(id, Cost(s.Size), most)
	c.mu.Lock()
	defer c.mu.Unlock()
	if admitted && n == 0 { // in the memory freed by evictions
		if n = c.place(s.Size); n == 0 {
			l.left = append(l.left, id)
		}
	}
	switch {
	case n == 0:
		return false
	case !admitted:
		c.release(n)
		return false
	}
	c.write(n, id, s, forever, data)
	return true
}

// admits asks ristretto whether to hold a sample, if all samples together may cost most. Before it
// returns, the samples that give way have been removed.
func (l *tinylfu) admits(id uint32, cost, most int64) bool {
	l.rejected = false
	l.sets.UpdateMaxCost(max(most, 1))
	if !l.sets.Set(uint64(id), struct{}{}, cost) {
		return false
	}
	l.sets.Wait()
	return !l.rejected
}
