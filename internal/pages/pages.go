package pages

import (
	"container/list"
	"context"
	"errors"
	"fmt"
	"math/bits"
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

// A Key identifies a page: the object it is in, and where it begins there.
type Key struct {
	Object int32
	Offset int64
}

// A Budget is the account that pages are charged to.
type Budget interface {
	// Reserve charges n bytes, or refuses.
	Reserve(n int64) bool
	// Release returns n charged bytes. It must not call the cache.
	Release(n int64)
}

// Options describe a cache.
type Options struct {
	Limit  int64 // bytes of pages that nobody holds
	Budget Budget
	Once   bool // a page is deleted when all of its uses were made
}

var (
	// ErrNoRoom is returned if the budget has no room for a page, or the system no memory.
	ErrNoRoom = errors.New("no room for a page")
	// ErrGivenUp is returned to those that waited for a caller whose load panicked.
	ErrGivenUp = errors.New("a page was not loaded")
)

// Stats counts what became of pages. Sizes are in bytes.
type Stats struct {
	Loaded   int64 `json:"loaded"`   // into memory
	Served   int64 `json:"served"`   // were there already, or on their way
	Refused  int64 `json:"refused"`  // were not kept any longer, as others took the limit
	NoRoom   int64 `json:"no_room"`  // were read for one sample, as there was no memory for the page
	Pages    int64 `json:"pages"`    // are there
	Reserved int64 `json:"reserved"` // by these
}

// A Cache holds pages. Its methods may be called concurrently. A nil Cache has none to trim.
type Cache struct {
	o Options

	mu     sync.Mutex
	pages  map[Key]*Page // that are being loaded, held or idle
	idle   list.List     // of those that nobody holds; the one that was used last at the end
	unheld int64         // bytes of the idle ones
	closed bool
	stats  Stats
}

// New makes a cache, which its caller closes. An empty one takes nothing of the budget.
func New(o Options) *Cache { return &Cache{o: o, pages: map[Key]*Page{}} }

// Close frees what nobody holds; the rest is freed when it is released.
func (c *Cache) Close() {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	for c.idle.Len() > 0 {
		c.freeOldest()
	}
}

// Stats describes the current state of the cache.
func (c *Cache) Stats() Stats {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.stats
}

// A Page is a page that its callers hold.
type Page struct {
	cache  *Cache
	key    Key
	bytes  []byte
	mapped []byte
	loaded chan struct{} // closed when bytes or err is there
	err    error         // is written before

	// Guarded by cache.mu.
	holders int
	idle    *list.Element // in cache.idle; nil: somebody holds it
	uses    []uint64      // a bit for each use that was made, where the last one is known
	left    int           // uses
}

// Bytes are the page's. They are valid until Release, and nobody may change them.
func (p *Page) Bytes() []byte { return p.bytes }

// Keeps says whether a page that so many samples are read from is ever of use to a second reader.
func (c *Cache) Keeps(uses int) bool { return c != nil && (uses > 1 || !c.o.Once) }

// Get returns a page of size bytes, which its caller has to release. If nobody has loaded it yet,
// load is called to fill it, and its error returned to all who wait for it; mine says whether this
// caller is the one that called it. uses is the number of samples that are read from the page, for
// Options.Once.
func (c *Cache) Get(ctx context.Context, k Key, size int64, uses int, load func(to []byte) error) (p *Page, mine bool, err error) {
	c.mu.Lock()
	p = c.pages[k]
	if mine = p == nil; mine {
		p = &Page{cache: c, key: k, loaded: make(chan struct{})}
		if c.o.Once {
			p.uses, p.left = make([]uint64, (uses+63)/64), uses
		}
		c.pages[k] = p
	} else {
		c.stats.Served++
		c.take(p)
	}
	p.holders++
	c.mu.Unlock()
	if mine {
		p.load(size, load)
	}
	p, err = p.wait(ctx)
	return p, mine, err
}

// NoUse is the use of a page by whom no sample was read.
const NoUse = -1

// wait returns the page once it is loaded.
func (p *Page) wait(ctx context.Context) (*Page, error) {
	var err error
	select {
	case <-p.loaded:
		err = p.err
	case <-ctx.Done():
		err = ctx.Err()
	}
	if err != nil {
		p.Release(NoUse)
		return nil, err
	}
	return p, nil
}

// load fills the page for all who wait for it.
func (p *Page) load(size int64, load func(to []byte) error) {
	c, err := p.cache, ErrGivenUp // unless it returns
	defer func() {
		c.mu.Lock()
		p.err = err
		switch {
		case err == nil:
			c.stats.Loaded++
		case errors.Is(err, ErrNoRoom):
			c.stats.NoRoom++
		}
		if err != nil {
			delete(c.pages, p.key) // who asks now tries again
		}
		c.mu.Unlock()
		close(p.loaded)
		if panics := err == ErrGivenUp; panics { // its caller does not come to that
			p.Release(NoUse)
		}
	}()
	failed := p.allocate(size)
	if failed == nil {
		failed = load(p.bytes)
	}
	err = failed
}

// allocate charges and maps the memory of a page. What nobody holds gives way to it.
func (p *Page) allocate(size int64) error {
	c, unit := p.cache, int64(os.Getpagesize())
	n := max(size+unit-1, unit) &^ (unit - 1)
	for !c.o.Budget.Reserve(n) {
		if c.Trim(n) == 0 {
			return ErrNoRoom
		}
	}
	mapped, err := unix.Mmap(-1, 0, int(n), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		c.o.Budget.Release(n)
		return fmt.Errorf("%w: %w", ErrNoRoom, err)
	}
	p.mapped, p.bytes = mapped, mapped[:size:size]
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stats.Pages, c.stats.Reserved = c.stats.Pages+1, c.stats.Reserved+n
	return nil
}

// Release ends the caller's hold of the page. use is which of the samples that are read from it was
// read, from 0 on.
func (p *Page) Release(use int) {
	c := p.cache
	c.mu.Lock()
	defer c.mu.Unlock()
	p.made(use)
	if p.holders--; p.holders > 0 {
		return
	}
	if spent := p.uses != nil && p.left == 0; spent || p.err != nil || c.closed {
		c.free(p)
		return
	}
	p.idle = c.idle.PushBack(p)
	for c.unheld += int64(len(p.mapped)); c.unheld > c.o.Limit; c.stats.Refused++ {
		c.freeOldest()
	}
}

// made notes a use. A use that was made before is of another epoch, which begins anew.
func (p *Page) made(use int) {
	if use < 0 || use >= 64*len(p.uses) {
		return
	}
	if p.left == 0 || p.uses[use/64]&(1<<(use%64)) != 0 {
		p.left += ones(p.uses)
		clear(p.uses)
	}
	p.uses[use/64] |= 1 << (use % 64)
	p.left--
}

func ones(set []uint64) (n int) {
	for _, word := range set {
		n += bits.OnesCount64(word)
	}
	return n
}

// take has a page held. The lock is held.
func (c *Cache) take(p *Page) {
	if p.idle != nil {
		c.idle.Remove(p.idle)
		p.idle = nil
		c.unheld -= int64(len(p.mapped))
	}
}

// free frees a page that nobody holds any more. The lock is held.
func (c *Cache) free(p *Page) {
	if c.pages[p.key] == p {
		delete(c.pages, p.key)
	}
	n := int64(len(p.mapped))
	if n == 0 {
		return
	}
	_ = unix.Munmap(p.mapped) // it fails of a wrong address only
	p.mapped, p.bytes = nil, nil
	c.stats.Pages, c.stats.Reserved = c.stats.Pages-1, c.stats.Reserved-n
	c.o.Budget.Release(n)
}

// freeOldest frees the idle page that was used longest ago, and returns its bytes. The lock is
// held.
func (c *Cache) freeOldest() int64 {
	p := c.idle.Front().Value.(*Page)
	n := int64(len(p.mapped))
	c.take(p)
	c.free(p)
	return n
}

// Trim frees at least n bytes, if pages that nobody holds have that many, and returns how many it
// freed.
func (c *Cache) Trim(n int64) (freed int64) {
	if c == nil {
		return 0
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for freed < n && c.idle.Len() > 0 {
		freed += c.freeOldest()
	}
	return freed
}
