package cache

import (
	"fmt"
	"sync"

	"github.com/dgraph-io/ristretto/v2"
)

// A tinylfu has ristretto decide which samples are held, for the policy TinyLFU. Ristretto sees
// numbers and costs only; the samples are where those of the other policies are.
//
// Ristretto works asynchronously, and drops some of its input under load, so on its own it neither
// keeps to a budget nor reports what it holds. Here it decides on one sample at a time, and each
// decision is waited for. Its limit is set before each decision, to what is held plus the new
// sample if there is memory for it, because the memory that the cache may use changes at any time.
type tinylfu struct {
	cache    *Cache
	counters int64
	sets     *ristretto.Cache[uint64, struct{}]

	mu       sync.Mutex // held while ristretto decides; before Cache.mu
	rejected bool       // the sample that it decides on

	// Guarded by Cache.mu.
	costs int64    // of the samples that are held
	left  []uint32 // samples that are not held any more, of which ristretto does not know yet
}

const (
	// countersPerHeld bounds ristretto's counters by how many samples the cache can hold: a large
	// dataset must not fill a small cache with them.
	countersPerHeld = 8
	// counterCost is what a counter takes: four of half a byte, and its share of a filter, rounded
	// up to powers of two.
	counterCost = 5
	// lfuBase is what ristretto takes whatever it holds, its queue above all.
	lfuBase = 400 << 10
	// lfuEntryCost is what it takes for each sample, in two of Go's maps, which double.
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

// entryCost is what is charged for the entry of a sample beside the table's.
func (l *tinylfu) entryCost() int64 {
	if l == nil {
		return 0
	}
	return lfuEntryCost
}

// came and leaves note what is held, and what ristretto has to be told of. The caller holds
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

// evicted makes a sample leave that had to make room. Ristretto calls it while put waits.
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
	held := c.again(id, s, forever)
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
	if admitted && n == 0 { // in what has become free
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

// admits asks ristretto whether to hold a sample, given the most that all samples may cost. By the
// time it returns, the samples that make room for it have been removed.
func (l *tinylfu) admits(id uint32, cost, most int64) bool {
	l.rejected = false
	l.sets.UpdateMaxCost(max(most, 1))
	if !l.sets.Set(uint64(id), struct{}{}, cost) {
		return false
	}
	l.sets.Wait()
	return !l.rejected
}
