package pinned

import (
	"container/list"
	"errors"
	"fmt"
	"sync"
)

// A Budget decides how much memory a pool may hold. Its methods must be safe for concurrent use;
// the pool calls them without holding any of its locks.
type Budget interface {
	// Reserve charges n bytes that will be allocated, or refuses.
	Reserve(n int64) bool
	// Release returns n charged bytes that were actually held: memory was freed, and callers
	// that were refused may try again.
	Release(n int64)
	// Cancel returns n reserved bytes that were never allocated, because the kernel refused or
	// they turned out not to be needed. No memory was freed, and callers must not be told so;
	// only those that were refused because of this very reservation may now succeed.
	Cancel(n int64)
}

// PoolOptions are a pool's settings; the zero value is useful.
type PoolOptions struct {
	// Lock requests page-locked buffers. If the kernel refuses, they are ordinary memory, and
	// Stats says so.
	Lock bool
	// Growth, from 1 to 4: a buffer that has to grow becomes at least this many times as large
	// as it was, if the budget has room. 0 counts as 1.
	Growth float64
}

// A Pool hands out buffers and takes them back. It is safe for concurrent use. It makes no
// system call while it holds its lock.
type Pool struct {
	store   *Store
	budget  Budget
	options PoolOptions

	mu         sync.Mutex
	settled    sync.Cond // signalled when a buffer is no longer busy
	owned      map[*Buffer]struct{}
	released   list.List // of *Buffer that readers may still see; least recently queried first
	releases   uint64
	stats      Stats
	lockError  error // the first refusal; nothing is locked after it
	reuseError error // why buffers are freed on release
	closed     bool
}

// NewPool makes a pool over a store; the pool closes neither the store nor the budget.
func NewPool(store *Store, budget Budget, o PoolOptions) *Pool {
	p := &Pool{store: store, budget: budget, options: o, owned: map[*Buffer]struct{}{}, reuseError: store.Leases()}
	p.settled.L = &p.mu
	return p
}

// Get returns a buffer of exactly size bytes, with unspecified contents. It fails with
// ErrNoMemory if the budget refuses, and changes nothing then. If the kernel refuses memory or
// descriptors, Get trims the pool and tries once more; then it fails with ErrKernel, and nothing
// stays charged. It does not wait for memory.
func (p *Pool) Get(size int64) (*Buffer, error) {
	if size < 0 {
		return nil, fmt.Errorf("a buffer of %d bytes", size)
	}
	b, err := p.get(size)
	if errors.Is(err, ErrKernel) {
		p.Trim() // released buffers also hold descriptors
		b, err = p.get(size)
	}
	if err != nil {
		return nil, err
	}
	b.released.Store(false)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.owned[b] = struct{}{}
	p.stats.Real += size
	p.stats.MaxReal = max(p.stats.MaxReal, size)
	return b, nil
}

// get is one attempt. It finds a buffer that no reader sees, or makes one, and charges memory
// before it allocates it.
func (p *Pool) get(size int64) (*Buffer, error) {
	b := p.take(size)
	var held int64
	if b != nil {
		held = b.held
	}
	target, ok := p.reserve(held, size)
	if !ok {
		if b != nil {
			p.restore(b)
		}
		if b = p.takeEnough(size); b == nil {
			return nil, fmt.Errorf("%w for a batch of %d bytes", ErrNoMemory, size)
		}
		held, target = b.held, b.held
	}
	if b == nil {
		var err error
		if b, err = p.open(); err != nil {
			p.cancel(target)
			return nil, err
		}
	}
	now, err := b.resize(size, target)
	if err != nil {
		p.discard(b)
		p.cancel(target - held)
		return nil, err
	}
	p.hold(b, now)
	p.cancel(target - max(held, now))
	p.giveBack(held - now)
	return b, nil
}

// cancel and giveBack tell the budget if there is anything to tell.
func (p *Pool) cancel(n int64) {
	if n > 0 {
		p.budget.Cancel(n)
	}
}

func (p *Pool) giveBack(n int64) {
	if n > 0 {
		p.budget.Release(n)
	}
}

// reserve charges what a buffer of held bytes must add to grow to size. The target is max(size,
// held*growth) in whole pages, or just size if the budget has no room for the margin. Buffers
// only grow.
func (p *Pool) reserve(held, size int64) (target int64, ok bool) {
	need := roundUp(size, pageSize)
	if need <= held {
		return held, true
	}
	if target := grown(held, need, p.options.Growth, pageSize); target > need && p.budget.Reserve(target-held) {
		return target, true
	}
	return need, p.budget.Reserve(need - held)
}

// open makes a buffer without any memory.
func (p *Pool) open() (*Buffer, error) {
	b := &Buffer{pool: p, fd: -1}
	if p.store.Files() {
		fd, err := p.store.File()
		if err != nil {
			return nil, err
		}
		b.fd = fd
	}
	p.mu.Lock()
	p.stats.Buffers++
	p.mu.Unlock()
	return b, nil
}

func (p *Pool) hold(b *Buffer, held int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stats.Reserved += held - b.held
	p.stats.MaxReserved = max(p.stats.MaxReserved, p.stats.Reserved)
	b.held = held
}

// lock page-locks a mapping, if the options request it and the kernel never refused.
func (p *Pool) lock(m []byte) bool {
	if !p.options.Lock || p.LockError() != nil {
		return false
	}
	err := lock(p.store.system, m)
	if err == nil {
		return true
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.lockError == nil {
		p.lockError = err
	}
	return false
}

// put takes a released buffer back.
func (p *Pool) put(b *Buffer) {
	p.mu.Lock()
	delete(p.owned, b)
	p.stats.Real -= b.size
	p.releases++
	b.turn, b.place = p.releases, p.released.PushBack(b)
	free := !b.busy && !p.keeps(b) // a busy one is freed when it is no longer busy
	b.busy = b.busy || free
	p.mu.Unlock()
	if free {
		p.remove(b)
	}
}

// keeps reports whether a released buffer may be useful; one without memory would only hold a
// descriptor. p.mu is held.
func (p *Pool) keeps(b *Buffer) bool { return !p.closed && p.reuseError == nil && b.held > 0 }

// discard frees a buffer that the caller owns or has made busy, and returns its number of bytes.
// If a reader still holds the file, its pages live on with the reader.
func (p *Pool) discard(b *Buffer) int64 {
	held := b.held
	p.hold(b, 0)
	b.destroy()
	p.mu.Lock()
	p.stats.Buffers--
	p.mu.Unlock()
	p.giveBack(held)
	return held
}

// Presize makes sure that n buffers of size bytes exist, so that n batches need no allocation:
// it gets and releases them. The error says why there are fewer; those stay.
func (p *Pool) Presize(size int64, n int) error {
	var buffers []*Buffer
	defer func() { // only at the end: Get would hand out a released one again
		for _, b := range buffers {
			b.Release()
		}
	}()
	for range n {
		b, err := p.Get(size)
		if err != nil {
			return err
		}
		buffers = append(buffers, b)
	}
	return nil
}

// Close frees every released buffer, and from now on each buffer on release. Readers that the
// kernel serves keep their bytes.
func (p *Pool) Close() {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	for _, b := range p.all() {
		if p.seize(b, true) {
			p.leave(b)
		}
	}
}
