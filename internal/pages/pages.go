package pages

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"

	"github.com/dgraph-io/ristretto/v2"
	"golang.org/x/sys/unix"
)

// A Key identifies a page: the object it is in, and where it begins there.
type Key struct {
	Object int32
	Offset int64
}

// hash is what ristretto knows a page by. Pages whose hashes are equal, of objects of more than a
// terabyte, displace each other.
func (k Key) hash() uint64 { return uint64(k.Object)<<40 ^ uint64(k.Offset) }

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
	Pages  int64 // about how many different ones there are
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
	Refused  int64 `json:"refused"`  // ristretto did not keep them
	NoRoom   int64 `json:"no_room"`  // were read for one sample, as there was no memory for the page
	Pages    int64 `json:"pages"`    // are there
	Reserved int64 `json:"reserved"` // by these
}

// A Cache holds pages. Its methods may be called concurrently. A nil Cache has none to trim.
type Cache struct {
	budget Budget
	once   bool
	fixed  int64 // bytes of ristretto's own
	kept   *ristretto.Cache[uint64, *Page]
	life   sync.RWMutex // held for reading while ristretto is called, as that may not be closed meanwhile
	closed bool

	mu    sync.Mutex    // no call of ristretto while it is held: those wait for onExit
	pages map[Key]*Page // that are being loaded, or that callers or ristretto have
	stats Stats
	freed int64
}

// counters is how many counters ristretto has for so many pages. What it takes beside them is its
// queue.
func counters(pages int64) int64 { return min(max(10*pages, 1<<10), 1<<20) }

const (
	ristrettoBytes = 512 << 10
	counterBytes   = 4
)

// New makes a cache, which its caller closes. The error is ErrNoRoom if the budget has no room for
// an empty one.
func New(o Options) (*Cache, error) {
	n := counters(o.Pages)
	c := &Cache{budget: o.Budget, once: o.Once, fixed: ristrettoBytes + counterBytes*n, pages: map[Key]*Page{}}
	if !c.budget.Reserve(c.fixed) {
		return nil, ErrNoRoom
	}
	var err error
	c.kept, err = ristretto.NewCache(&ristretto.Config[uint64, *Page]{
		NumCounters: n, MaxCost: max(o.Limit, 1), BufferItems: 64, IgnoreInternalCost: true,
		OnReject: func(*ristretto.Item[*Page]) { c.count(func(s *Stats) { s.Refused++ }) },
		OnExit:   c.onExit,
	})
	if err != nil {
		c.budget.Release(c.fixed)
		return nil, fmt.Errorf("pages: %w", err)
	}
	return c, nil
}

// Close frees what nobody holds; the rest is freed when it is released.
func (c *Cache) Close() {
	if c == nil {
		return
	}
	c.life.Lock()
	defer c.life.Unlock()
	if c.closed {
		return
	}
	c.closed = true
	c.kept.Close()
	c.budget.Release(c.fixed)
}

// whileOpen calls f, which calls ristretto, unless the cache is closed.
func (c *Cache) whileOpen(f func()) {
	c.life.RLock()
	defer c.life.RUnlock()
	if !c.closed {
		f()
	}
}

func (c *Cache) count(change func(*Stats)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	change(&c.stats)
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
	kept    bool   // ristretto has it, or is about to
	uses    []bool // which were made, where the last one is known
	left    int    // that were not
}

// Bytes are the page's. They are valid until Release, and nobody may change them.
func (p *Page) Bytes() []byte { return p.bytes }

// Keeps says whether a page that so many samples are read from is ever of use to a second reader.
func (c *Cache) Keeps(uses int) bool { return c != nil && (uses > 1 || !c.once) }

// Get returns a page of size bytes, which its caller has to release. If nobody has loaded it yet,
// load is called to fill it, and its error returned to all who wait for it; mine says whether this
// caller is the one that called it. uses is the number of samples that are read from the page, for
// Options.Once.
func (c *Cache) Get(ctx context.Context, k Key, size int64, uses int, load func(to []byte) error) (p *Page, mine bool, err error) {
	c.whileOpen(func() { c.kept.Get(k.hash()) }) // to have it counted
	c.mu.Lock()
	if p = c.pages[k]; p != nil {
		p.holders++
		c.stats.Served++
		c.mu.Unlock()
		p, err = p.wait(ctx)
		return p, false, err
	}
	p = &Page{cache: c, key: k, loaded: make(chan struct{}), holders: 1}
	if c.once {
		p.uses, p.left = make([]bool, uses), uses
	}
	c.pages[k] = p
	c.mu.Unlock()
	p.load(size, load)
	p, err = p.wait(ctx)
	return p, true, err
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
		p.release(NoUse)
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
			p.release(NoUse)
		}
	}()
	failed := c.allocate(p, size)
	if failed == nil {
		failed = load(p.bytes)
	}
	err = failed
}

// allocate charges and maps the memory of a page. What nobody holds gives way to it.
func (c *Cache) allocate(p *Page, size int64) error {
	unit := int64(os.Getpagesize())
	n := max(size+unit-1, unit) &^ (unit - 1)
	for !c.budget.Reserve(n) {
		if c.Trim(n) == 0 {
			return ErrNoRoom
		}
	}
	mapped, err := unix.Mmap(-1, 0, int(n), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		c.budget.Release(n)
		return fmt.Errorf("%w: %w", ErrNoRoom, err)
	}
	p.mapped, p.bytes = mapped, mapped[:size:size]
	c.count(func(s *Stats) { s.Pages, s.Reserved = s.Pages+1, s.Reserved+n })
	return nil
}

// Release ends the caller's hold of the page. use is which of the samples that are read from it was
// read, from 0 on.
func (p *Page) Release(use int) { p.release(use) }

func (p *Page) release(use int) {
	c := p.cache
	c.mu.Lock()
	p.made(use)
	p.holders--
	last := p.holders == 0 && p.err == nil
	spent := last && p.uses != nil && p.left == 0
	forget, offer := spent && p.kept, last && !spent && !p.kept
	p.kept = p.kept || offer
	c.mu.Unlock()
	switch {
	case forget:
		c.whileOpen(func() { c.kept.Del(p.key.hash()) })
	case offer:
		taken := false
		c.whileOpen(func() { taken = c.kept.Set(p.key.hash(), p, int64(len(p.mapped))) })
		if !taken {
			c.count(func(s *Stats) { s.Refused++ })
			c.onExit(p)
		}
	default:
		c.freeUnused(p)
	}
}

// made notes a use. A use that was made before is of another epoch, which begins anew.
func (p *Page) made(use int) {
	if use < 0 || use >= len(p.uses) {
		return
	}
	if p.left == 0 || p.uses[use] {
		clear(p.uses)
		p.left = len(p.uses)
	}
	p.uses[use] = true
	p.left--
}

// onExit is called when ristretto does not have a page any more, whatever the reason.
func (c *Cache) onExit(p *Page) {
	if p == nil { // it had none
		return
	}
	c.mu.Lock()
	p.kept = false
	c.mu.Unlock()
	c.freeUnused(p)
}

// freeUnused frees a page that nobody has.
func (c *Cache) freeUnused(p *Page) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if p.holders > 0 || p.kept {
		return
	}
	if c.pages[p.key] == p {
		delete(c.pages, p.key)
	}
	n := int64(len(p.mapped))
	if n == 0 {
		return
	}
	_ = unix.Munmap(p.mapped) // it fails of a wrong address only
	p.mapped, p.bytes = nil, nil
	c.stats.Pages, c.stats.Reserved, c.freed = c.stats.Pages-1, c.stats.Reserved-n, c.freed+n
	c.budget.Release(n)
}

// Trim frees at least n bytes, if pages that nobody holds have that many, and returns how many it
// freed.
func (c *Cache) Trim(n int64) (freed int64) {
	if c == nil {
		return 0
	}
	var idle []Key
	c.mu.Lock()
	before, found := c.freed, int64(0)
	for k, p := range c.pages {
		if found >= n {
			break
		}
		if p.kept && p.holders == 0 {
			idle, found = append(idle, k), found+int64(len(p.mapped))
		}
	}
	c.mu.Unlock()
	if len(idle) == 0 {
		return 0
	}
	c.whileOpen(func() {
		for _, k := range idle {
			c.kept.Del(k.hash())
		}
		c.kept.Wait() // until also those that it was about to keep have left
	})
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.freed - before
}
