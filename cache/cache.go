package cache

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"sync"

	"github.com/batchfs/batchfs/internal/option"
)

// A Stamp distinguishes a file from a later one at the same path.
type Stamp struct {
	Size    int64 // bytes
	ModTime int64 // ns since 1970
}

// A Budget limits the cache's memory, in addition to the cache's own limit. Its methods are
// called with the cache locked, so they must not call the cache.
type Budget interface {
	// Reserve charges n bytes, or refuses.
	Reserve(n int64) bool
	// Release returns n charged bytes.
	Release(n int64)
}

// Options describe a cache.
type Options struct {
	Policy  Policy
	Limit   int64  // bytes, including all overhead; at least 0
	Samples int64  // samples in the dataset, numbered from 0
	Plan    Plan   // for Constant
	Budget  Budget // nil: only the limit counts
}

// errNoMemory is returned if the budget or the system refuses the memory of an empty cache.
var errNoMemory = errors.New("no memory left for the cache")

// A Cache holds encoded samples. A nil Cache has policy None and holds nothing. All methods may
// be called concurrently, except Close.
type Cache struct {
	policy Policy
	plan   Plan

	mu     sync.Mutex
	ledger ledger
	arena  arena
	table  table
	lfu    *tinylfu // nil: another policy
	held   int64    // bytes of the held samples
	packed int64    // number of held samples in packed form
	grown  int64    // bytes that those take beyond their files
	meter  meter
}

// New makes a cache; nil for the policy None and for a limit of 0. The caller closes it. An error
// is an *option.Error, or errNoMemory.
func New(o Options) (*Cache, error) {
	if err := o.validate(); err != nil {
		return nil, err
	}
	if o.Policy == None || o.Limit == 0 {
		return nil, nil
	}
	c := &Cache{policy: o.Policy, plan: o.Plan, ledger: ledger{limit: o.Limit, budget: o.Budget}}
	if err := build(c, o); err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}

// build allocates the parts, after charging for them.
func build(c *Cache, o Options) (err error) {
	if fixed := fixedBytes(o.Policy, o.Limit, o.Samples); !c.ledger.charge(fixed) {
		return fmt.Errorf("%w: %d bytes are too few for its tables, which take %d", errNoMemory, o.Limit, fixed)
	}
	if c.table, err = newTable(mostSamples(o.Limit, o.Samples)); err != nil {
		return err
	}
	if o.Policy == TinyLFU {
		if c.lfu, err = newTinyLFU(c, countersFor(o.Limit, o.Samples)); err != nil {
			return err
		}
	}
	c.arena, err = newArena(int(o.Limit/int64(systemPage)) + 1)
	return err
}

// MaxLimit is the largest limit: what 32-bit crumb numbers can address, with a margin.
const MaxLimit = 1 << 40

func (o *Options) validate() error {
	switch {
	case o.Policy > TinyLFU:
		return &option.Error{Field: "cache policy", Rule: "one of those named here", Value: strconv.Itoa(int(o.Policy))}
	case o.Limit < 0 || o.Limit > MaxLimit:
		rule := fmt.Sprintf("from 0 to %d bytes", int64(MaxLimit))
		return &option.Error{Field: "cache limit", Rule: rule, Value: strconv.FormatInt(o.Limit, 10)}
	case o.Samples < 1 || o.Samples > math.MaxInt32:
		rule := fmt.Sprintf("from 1 to %d", math.MaxInt32)
		return &option.Error{Field: "samples", Rule: rule, Value: strconv.FormatInt(o.Samples, 10)}
	case o.Policy == Constant && o.Plan == nil:
		return &option.Error{Field: "cache plan", Rule: "given for the policy constant", Value: "nil"}
	}
	return nil
}

// Close frees everything. No other method may be running. Later calls find nothing, and Stats
// returns the final counts.
func (c *Cache) Close() {
	if c == nil {
		return
	}
	c.lfu.close() // its samples leave
	c.mu.Lock()
	defer c.mu.Unlock()
	c.table.close()
	c.arena.close()
	c.ledger.charge(-c.ledger.charged)
	c.held, c.packed, c.grown = 0, 0, 0
}

// Holds says whether the cache holds the sample, under any stamp.
func (c *Cache) Holds(id int64) bool {
	if c == nil {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.table.find(uint32(id)) != 0
}

// Get returns a copy of the sample for a reader of the given epoch, if the cache holds it under
// that stamp. It uses buf if its capacity suffices, else the memory that grow(n) returns: at least
// n bytes, or less to refuse, which counts as a sample that is not held. The returned bytes lie in
// the caller's memory; packed says that Replace stored them. The policy decides whether the sample
// stays. A sample with another stamp is evicted.
func (c *Cache) Get(epoch int, id int64, s Stamp, buf []byte, grow func(n int) []byte) (data []byte, packed, ok bool) {
	data, packed, ok = c.Peek(id, s, buf, grow)
	if ok {
		c.served(epoch, id, s)
	}
	return data, packed, ok
}

// Peek is Get for reads outside the order of an epoch, such as of a sample that replaces a bad one.
// It affects neither the policy nor the counters.
func (c *Cache) Peek(id int64, s Stamp, buf []byte, grow func(n int) []byte) (data []byte, packed, ok bool) {
	if c == nil {
		return nil, false, false
	}
	n, e := c.pin(uint32(id), s)
	if n == 0 {
		return nil, false, false
	}
	defer func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		e := &c.table.entries[n]
		if e.readers--; !e.held && e.readers == 0 {
			c.release(n)
		}
	}()
	size := int(e.size)
	if cap(buf) < size && grow != nil {
		buf = grow(size)
	}
	if cap(buf) < size || buf == nil {
		return nil, false, false
	}
	c.arena.read(e.chain, buf[:size])
	return buf[:size], e.packed, true
}

// pin finds a sample and protects its memory from being released.
func (c *Cache) pin(id uint32, s Stamp) (uint32, entry) {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := c.current(id, s)
	if n == 0 {
		return 0, entry{}
	}
	e := &c.table.entries[n]
	e.readers++
	return n, *e
}

// Put offers a sample that was read from storage in an epoch, under a stamp; s.Size must be
// len(data). Callers must offer every such sample, even if it will not be kept. data remains the
// caller's. short reports that a plan keeps the sample, and there is no room yet: see Again.
func (c *Cache) Put(epoch int, id int64, s Stamp, data []byte) (short bool) {
	if c == nil {
		return false
	}
	if int64(len(data)) != s.Size {
		panic("cache: a sample whose length is not that of its stamp")
	}
	keep, known := c.askPolicy(epoch, id)
	stored := c.lfu != nil && c.lfu.put(uint32(id), s, data)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.lfu == nil {
		stored = keep && c.store(epoch, uint32(id), s, data)
	}
	count := c.meter.read(epoch, known)
	count.Misses++
	if stored {
		c.meter.kept(count, s.Size)
	} else if keep {
		count.NotKept++
		short = c.policy == Constant
	}
	return short
}

// Again is Put for a sample for which there was no room: those that it replaces may have left
// since.
func (c *Cache) Again(epoch int, id int64, s Stamp, data []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.store(epoch, uint32(id), s, data) {
		count := c.meter.epoch(epoch)
		count.NotKept--
		c.meter.kept(count, s.Size)
	}
}

// Replace replaces a sample that is held under that stamp with data, the same sample in a form that
// its reader prefers. The policy treats it like the original. Replace refuses a sample that was
// replaced before or is being read. It also refuses without memory, or if all replaced samples
// would take more than most bytes beyond their files (see [Cost]), so that there is room left for
// samples still to come. data remains the caller's.
func (c *Cache) Replace(id int64, s Stamp, data []byte, most int64) bool {
	if c == nil || c.lfu != nil {
		return false
	}
	size := int64(len(data))
	grows := Cost(size) - Cost(s.Size)
	c.mu.Lock()
	defer c.mu.Unlock()
	if n := c.current(uint32(id), s); n == 0 || c.table.entries[n].packed || grows > 0 && c.grown+grows > most {
		return false
	}
	where, ok := c.ledger.allocate(&c.arena, size, 0)
	if !ok {
		return false
	}
	c.mu.Unlock()
	c.arena.write(where, data)
	c.mu.Lock()
	n := c.current(uint32(id), s)
	if n == 0 || c.table.entries[n].packed || c.table.entries[n].readers > 0 || grows > 0 && c.grown+grows > most {
		c.arena.release(where)
		return false
	}
	e := &c.table.entries[n]
	c.arena.release(e.chain)
	c.held += size - e.size
	e.chain, e.size, e.packed = where, size, true
	c.packed++
	c.grown += grows
	c.meter.largest = max(c.meter.largest, size)
	return true
}

// Grown is how many bytes all replaced samples take beyond their files.
func (c *Cache) Grown() int64 {
	if c == nil {
		return 0
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.grown
}

// Missed counts a sample that was read from storage in an epoch and is not offered to Put.
func (c *Cache) Missed(epoch int, id int64) {
	if c == nil {
		return
	}
	// The plan keeps the sample, but did not know that yet when Wants was called.
	keep, known := c.askPolicy(epoch, id)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.meter.read(epoch, known && !keep).Misses++
}

// Drop removes a sample.
func (c *Cache) Drop(id int64) {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if n := c.table.find(uint32(id)); n != 0 {
		c.evict(n)
	}
}
