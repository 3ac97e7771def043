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

// A Key identifies a page: its object, and its offset there.
type Key struct {
	Object int32
	Offset int64
}

// hash is ristretto's name for a page. Pages with equal hashes, in objects of more than a terabyte,
// displace each other.
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
	Limit  int64 // bytes of pages without holders
	Pages  int64 // about how many different pages there are
	Budget Budget
	Once   bool // a page is deleted after its last use
}

var (
	// ErrNoRoom is returned if the budget has no room for a page, or the system no memory.
	ErrNoRoom = errors.New("no room for a page")
	// ErrGivenUp is returned to callers that waited for another caller, whose load panicked.
	ErrGivenUp = errors.New("a page was not loaded")
)

// Stats counts pages by their fate. Sizes are in bytes.
type Stats struct {
	Loaded   int64 `json:"loaded"`   // into memory
	Served   int64 `json:"served"`   // were there already, or being loaded
	Refused  int64 `json:"refused"`  // ristretto did not keep them
	NoRoom   int64 `json:"no_room"`  // were read for one sample, without memory for the page
	Pages    int64 `json:"pages"`    // are there now
	Reserved int64 `json:"reserved"` // by the present pages
}

// A Cache holds pages. Its methods may be called concurrently. A nil Cache has nothing to trim.
type Cache struct {
	budget Budget
	once   bool
	fixed  int64 // bytes of ristretto itself
	kept   *ristretto.Cache[uint64, *Page]
	life   sync.RWMutex // held for reading during calls of ristretto, which must not be closed meanwhile
	closed bool

	mu    sync.Mutex    // its holder must not call ristretto, whose calls wait for onExit
	pages map[Key]*Page // being loaded, or held by callers or ristretto
	stats Stats
	freed int64
}

// counters is how many counters ristretto has for a number of pages. The rest of its memory is its
// queue.
func counters(pages int64) int64 { return min(max(10*pages, 1<<10), 1<<20) }

const (
	ristrettoBytes = 512 << 10
	counterBytes   = 4
)

// New makes a cache, which the caller closes. The error is ErrNoRoom if the budget has no room for
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

// Close frees pages without holders; the others are freed when they are released.
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

// A Page is a page that callers hold.
type Page struct {
	cache  *Cache
	key    Key
	bytes  []byte
	mapped []byte
	loaded chan struct{} // closed when bytes or err is set
	err    error         // set before loaded is closed

	// Guarded by cache.mu.
	holders int
	kept    bool   // ristretto has it, or will soon
	epoch   int    // the newest epoch that has read a sample
	uses    []bool // which uses it has made, if the last one is known
	left    int    // number of uses that it has not made yet
}

// Bytes are the page's content. They are valid until Release, and must not be changed.
func (p *Page) Bytes() []byte { return p.bytes }

// Keeps says whether a page with a number of uses can ever serve a second reader.
func (c *Cache) Keeps(uses int) bool { return c != nil && (uses > 1 || !c.once) }

// Get returns a page of size bytes, which the caller must release. If nobody has loaded it yet, Get
// calls load to fill it, and all waiting callers get load's error; mine says whether this caller
// called load. uses is the number of samples that are read from the page, for Options.Once.
func (c *Cache) Get(ctx context.Context, k Key, size int64, uses int, load func(to []byte) error) (p *Page, mine bool, err error) {
	c.whileOpen(func() { c.kept.Get(k.hash()) }) // so that ristretto counts the request
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

// NoUse is the use of a caller who read no sample.
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
		p.release(0, NoUse)
		return nil, err
	}
	return p, nil
}

// load fills the page for all waiting callers.
func (p *Page) load(size int64, load func(to []byte) error) {
	c, err := p.cache, ErrGivenUp // in case load panics
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
			delete(c.pages, p.key) // later callers try again
		}
		c.mu.Unlock()
		close(p.loaded)
		if panics := err == ErrGivenUp; panics { // the caller of a panicking load cannot release the page
			p.release(0, NoUse)
		}
	}()
	failed := c.allocate(p, size)
	if failed == nil {
		failed = load(p.bytes)
	}
	err = failed
}

// allocate charges and maps the memory of a page. It frees pages without holders if necessary.
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

// Release ends the caller's hold of the page. use says which of the page's samples an epoch has
// read, from 0.
func (p *Page) Release(epoch, use int) { p.release(epoch, use) }

func (p *Page) release(epoch, use int) {
	c := p.cache
	c.mu.Lock()
	p.made(epoch, use)
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

// made notes a use. Each epoch begins anew, and so does one that is read again. The epoch before
// the newest one may still have uses left, by readers that are behind: the newest needs the page
// for longer.
func (p *Page) made(epoch, use int) {
	if use < 0 || use >= len(p.uses) || epoch == p.epoch-1 {
		return
	}
	if epoch != p.epoch || p.left == 0 || p.uses[use] {
		clear(p.uses)
		p.epoch, p.left = epoch, len(p.uses)
	}
	p.uses[use] = true
	p.left--
}

// onExit is called when ristretto has dropped a page, for whatever reason.
func (c *Cache) onExit(p *Page) {
	if p == nil { // ristretto had none
		return
	}
	c.mu.Lock()
	p.kept = false
	c.mu.Unlock()
	c.freeUnused(p)
}

// freeUnused frees a page that nobody uses.
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
	_ = unix.Munmap(p.mapped) // it fails only for a wrong address
	p.mapped, p.bytes = nil, nil
	c.stats.Pages, c.stats.Reserved, c.freed = c.stats.Pages-1, c.stats.Reserved-n, c.freed+n
	c.budget.Release(n)
}

// Trim frees at least n bytes, if pages without holders have that many, and returns how many it
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
		c.kept.Wait() // until pages that it was about to keep have left, too
	})
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.freed - before
}
