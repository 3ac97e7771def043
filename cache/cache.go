package cache

import (
	"errors"
	"fmt"
	"math"
	"sync"
)

// A Stamp tells a file from a later one at the same path.
type Stamp struct {
	Size    int64 // bytes
	ModTime int64 // ns since 1970
}

// A Budget decides how much memory the cache may hold, beside its own limit. Its
// methods are called with the cache locked, so they must not call the cache.
type Budget interface {
	// Reserve charges n bytes, or refuses.
	Reserve(n int64) bool
	// Release gives n charged bytes back.
	Release(n int64)
}

// Options say what a cache is.
type Options struct {
	Policy  Policy
	Limit   int64  // bytes, everything included; at least 0
	Samples int64  // in the dataset; they are numbered from 0
	Plan    Plan   // for Constant
	Budget  Budget // nil: the limit alone counts
}

// ErrNoMemory is returned when the budget or the system refuses what a cache needs
// before it holds anything.
var ErrNoMemory = errors.New("no memory left for the cache")

// A Cache holds encoded samples. A nil Cache is one of policy None: it holds and
// keeps nothing. All methods may be called concurrently, except Close.
type Cache struct {
	policy Policy
	plan   Plan
	budget Budget
	limit  int64
	lfu    *lfu // nil unless the policy is TinyLFU

	mu      sync.Mutex
	closed  bool
	arena   arena
	table   table
	reading int   // the epoch that was read last
	charged int64 // bytes, also to the budget
	held    int64 // bytes of the samples that are held
	costs   int64 // what they take, as Cost says
	meter   meter
}

// New makes a cache; nil for the policy None and for a limit of 0. The caller
// closes it.
func New(o Options) (*Cache, error) {
	if err := o.validate(); err != nil {
		return nil, err
	}
	if o.Policy == None || o.Limit == 0 {
		return nil, nil
	}
	if o.Budget == nil {
		o.Budget = unlimited{}
	}
	c := &Cache{policy: o.Policy, plan: o.Plan, budget: o.Budget, limit: o.Limit}
	if err := c.build(o); err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}

// build makes the parts, charged before they are there.
func (c *Cache) build(o Options) (err error) {
	samples := mostSamples(o.Limit, o.Samples)
	if fixed := fixedBytes(o.Policy, o.Limit, o.Samples); !c.charge(fixed) {
		return fmt.Errorf("%w: %d bytes are too few for its tables, which take %d", ErrNoMemory, o.Limit, fixed)
	}
	if c.table, err = newTable(samples); err != nil {
		return err
	}
	if c.arena, err = newArena(int(o.Limit/int64(systemPage))+1, systemPage); err != nil {
		return err
	}
	if o.Policy == TinyLFU {
		c.lfu, err = newLFU(c, samples)
	}
	return err
}

// maxLimit is what 32-bit numbers of crumbs reach, with room to spare.
const maxLimit = 1 << 40

func (o *Options) validate() error {
	switch {
	case o.Policy > TinyLFU:
		return fmt.Errorf("cache policy must be one of those named here, not %d", o.Policy)
	case o.Limit < 0 || o.Limit > maxLimit:
		return fmt.Errorf("cache limit must be from 0 to %d bytes, not %d", int64(maxLimit), o.Limit)
	case o.Samples < 1 || o.Samples > math.MaxInt32:
		return fmt.Errorf("samples must be from 1 to %d, not %d", math.MaxInt32, o.Samples)
	case o.Policy == Constant && o.Plan == nil:
		return errors.New("cache plan must be given for the policy constant, not nil")
	}
	return nil
}

type unlimited struct{}

func (unlimited) Reserve(int64) bool { return true }
func (unlimited) Release(int64)      {}

// Holds says whether the sample is there, whatever its stamp.
func (c *Cache) Holds(id int64) bool {
	if c == nil {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.table.find(uint32(id)) != 0
}

// Get returns a copy of the sample, for a reader of the given epoch, if it is there
// under that stamp: in buf if that has the capacity, else in what grow(n) returns
// (at least n bytes, or less to refuse, which is like a sample that is not there).
// The bytes returned are the caller's memory. The policy decides whether the sample
// stays; one of another stamp leaves.
func (c *Cache) Get(epoch int, id int64, s Stamp, buf []byte, grow func(n int) []byte) ([]byte, bool) {
	if c == nil {
		return nil, false
	}
	n, data := c.copy(id, s, buf, grow)
	if n == 0 {
		return nil, false
	}
	if c.lfu != nil {
		c.lfu.asked(uint32(id))
	}
	keep, known := c.asks(epoch, id)
	c.mu.Lock()
	defer c.mu.Unlock()
	if data != nil {
		c.served(epoch, n, keep)
		c.meter.asked(epoch, known)
	}
	c.unpin(n)
	return data, data != nil
}

// Peek is Get for who does not read for the sake of an epoch, such as for a sample
// that stands in for another: the policy learns nothing of it, and it counts nowhere.
func (c *Cache) Peek(id int64, s Stamp, buf []byte, grow func(n int) []byte) ([]byte, bool) {
	if c == nil {
		return nil, false
	}
	n, data := c.copy(id, s, buf, grow)
	if n == 0 {
		return nil, false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.unpin(n)
	return data, data != nil
}

// copy copies a sample that is held under that stamp, and returns its entry, which
// the caller unpins. The entry is 0 if there is none, the data nil if the caller
// has no memory for it.
func (c *Cache) copy(id int64, s Stamp, buf []byte, grow func(n int) []byte) (n uint32, data []byte) {
	n, from, other := c.pin(uint32(id), s)
	if other {
		c.drop(uint32(id), func(held Stamp) bool { return held != s })
	}
	if n == 0 {
		return 0, nil
	}
	size := int(s.Size)
	if cap(buf) < size && grow != nil {
		buf = grow(size)
	}
	if cap(buf) < size || buf == nil {
		return n, nil
	}
	buf = buf[:size]
	c.arena.read(from, buf)
	return n, buf
}

// pin finds a sample and keeps it from being released. other says that there is
// one of another stamp.
func (c *Cache) pin(id uint32, s Stamp) (n uint32, where chain, other bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	n = c.table.find(id)
	if n == 0 {
		return 0, chain{}, false
	}
	e := &c.table.entries[n]
	if e.stamp != s {
		return 0, chain{}, true
	}
	e.readers++
	return n, e.chain, false
}

// unpin lets go of an entry; c.mu is held.
func (c *Cache) unpin(n uint32) {
	e := &c.table.entries[n]
	if e.readers--; e.gone && e.readers == 0 {
		c.release(n)
	}
}

// Put offers a sample that was read from storage in an epoch, under a stamp: s.Size
// is len(data). It is called for every such sample, whether it will be kept or not;
// data stays the caller's.
func (c *Cache) Put(epoch int, id int64, s Stamp, data []byte) {
	if c == nil {
		return
	}
	if int64(len(data)) != s.Size {
		panic("cache: a sample whose length is not that of its stamp")
	}
	if c.lfu != nil {
		c.lfu.asked(uint32(id))
	}
	keep, known := c.asks(epoch, id)
	stored := keep && c.store(epoch, uint32(id), s, data)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.reading = epoch
	count := c.meter.epoch(epoch)
	count.Misses++
	c.meter.asked(epoch, known)
	switch {
	case stored:
		c.meter.kept(epoch, s.Size)
	case keep:
		count.NotKept++
	}
}

// Missed counts a sample that was read from storage in an epoch and is not offered.
func (c *Cache) Missed(epoch int, id int64) {
	if c == nil {
		return
	}
	_, known := c.asks(epoch, id)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.reading = epoch
	c.meter.epoch(epoch).Misses++
	c.meter.asked(epoch, known)
}

// Drop forgets a sample.
func (c *Cache) Drop(id int64) {
	if c != nil {
		c.drop(uint32(id), func(Stamp) bool { return true })
	}
}

// Close frees everything. No other method may be running; those that follow find
// nothing, and Stats the final counts.
func (c *Cache) Close() {
	if c == nil || c.closed {
		return
	}
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	if c.lfu != nil {
		c.lfu.close() // it may call back once more
	}
	c.table.close()
	c.arena.close()
	c.charge(-c.charged)
	c.held = 0
}
