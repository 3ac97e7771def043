package pinned

import (
	"errors"
	"fmt"
	"slices"
	"sync"
)

// A Budget decides how much memory a pool may hold. Its methods must be safe for concurrent use,
// and must not call the pool.
type Budget interface {
	// Reserve charges n bytes that will be allocated, or refuses.
	Reserve(n int64) bool
	// Release returns n charged bytes that were actually held: memory was freed, and callers
	// that were refused may try again.
	Release(n int64)
	// Cancel returns n reserved bytes that were never allocated, because the kernel refused or they
	// turned out to be unnecessary. No memory was freed, and callers must not be told so; only
	// callers that were refused because of this very reservation may now succeed.
	Cancel(n int64)
}

// PoolOptions are a pool's settings; the zero value is useful.
type PoolOptions struct {
	// Lock requests page-locked buffers. If the kernel refuses, they are ordinary memory, and
	// Stats says so.
	Lock bool
	// Name of the buffers in Stats.
	Name string
	// Growth, from 1 to 4: a buffer that must grow becomes at least this many times as large as it
	// was, if the budget has room. 0 counts as 1.
	Growth float64
	// Registrar registers the buffers for which Buffer.Register is called; nil: none.
	Registrar Registrar
}

// A Registrar lets a GPU fetch bytes from memory by itself, from its present pages. Its methods
// must be safe for concurrent use. They may take forever.
type Registrar interface {
	Register(m []byte) error
	Unregister(m []byte)
}

// A Pool hands out buffers and takes them back. It is safe for concurrent use.
type Pool struct {
	store   *Store
	budget  Budget
	options PoolOptions

	// asking is held to make system calls on buffers that the caller does not own. Released buffers
	// stay released while it is held; Trim holds it for one buffer at a time. Its holder takes only
	// mu, and tells the budget only of freed memory.
	asking sync.Mutex

	// The holder of mu makes no system calls and does not call the budget.
	mu       sync.Mutex
	inUse    map[*Buffer]struct{}
	released []*Buffer // readers may still see them; least recently queried first
	releases uint64
	stats    Stats
	overdue  int // leaving buffers that no goroutine waits for any more
	closed   bool
}

// Stats describes a pool in bytes.
type Stats struct {
	BufferStats       // Pinned if page-locking was requested, Locked if it was never refused
	Buffers     int   // number of buffers, in use and released
	Leaving     int   // number of others, which are freed once the Registrar unregisters them
	LockedBytes int64 // how much of what is held is page-locked
	LockError   error // why it was refused; nil if it was not refused or not requested
	ReuseError  error // why buffers are freed on release; nil if they are reused
}

// NewPool makes a pool over a store; the pool closes neither the store nor the budget.
func NewPool(store *Store, budget Budget, o PoolOptions) *Pool {
	s := Stats{BufferStats: BufferStats{Name: o.Name, Kind: HostMemory}, ReuseError: store.Leases()}
	if o.Lock {
		s.Kind, s.Locked = Pinned, true
	}
	return &Pool{store: store, budget: budget, options: o, inUse: map[*Buffer]struct{}{}, stats: s}
}

// Stats returns the pool's current state. It makes no system calls.
func (p *Pool) Stats() Stats {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.stats
	s.Buffers = len(p.inUse) + len(p.released)
	return s
}

// Get returns a buffer of exactly size bytes, with unspecified contents. It fails with
// ErrNoMemory if the budget refuses, and changes nothing then. If the kernel refuses memory or
// descriptors, Get trims the pool and tries once more; then it fails with errKernel, and nothing
// stays charged. It does not wait for memory.
func (p *Pool) Get(size int64) (*Buffer, error) {
	if size < 0 {
		return nil, fmt.Errorf("a buffer of %d bytes", size)
	}
	b, err := p.get(size)
	if errors.Is(err, errKernel) {
		p.Trim() // released buffers also hold descriptors
		b, err = p.get(size)
	}
	if err != nil {
		return nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.inUse[b] = struct{}{}
	p.stats.change(Use{}, Use{Real: size})
	return b, nil
}

// get is one attempt. It finds a buffer that no reader sees, or makes one, and charges memory
// before it allocates it.
func (p *Pool) get(size int64) (*Buffer, error) {
	b := p.take(size, false)
	var held int64
	if b != nil {
		held = b.held
	}
	target, ok := p.reserve(held, size)
	if !ok {
		if b != nil {
			p.list(b)
		}
		if b = p.take(size, true); b == nil {
			return nil, fmt.Errorf("%w for a batch of %d bytes", ErrNoMemory, size)
		}
		held, target = b.held, b.held
	}
	if b != nil && b.movesPages(size, target) && !p.unregister(b) { // the next attempt uses another buffer
		report(p.budget.Cancel, target-held)
		return p.get(size)
	}
	if b == nil {
		var err error
		if b, err = p.open(); err != nil {
			report(p.budget.Cancel, target)
			return nil, err
		}
	}
	now, err := b.resize(size, target)
	if err != nil {
		p.discard(b)
		report(p.budget.Cancel, target-held)
		return nil, err
	}
	p.hold(b, now)
	report(p.budget.Cancel, target-max(held, now))
	report(p.budget.Release, held-now)
	return b, nil
}

// report reports n bytes to a method of the budget, unless n is 0.
func report(method func(int64), n int64) {
	if n > 0 {
		method(n)
	}
}

// reserve charges what a buffer of held bytes needs to grow to size. The target is max(size,
// held*growth) in whole pages, or just size if the budget has no room for the margin. Buffers only
// grow.
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

// open makes a buffer without memory.
func (p *Pool) open() (*Buffer, error) {
	if !p.store.files() {
		return &Buffer{pool: p, fd: -1}, nil
	}
	fd, err := p.store.File()
	return &Buffer{pool: p, fd: fd}, err
}

// hold records how much a buffer holds now.
func (p *Pool) hold(b *Buffer, held int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	var locked int64
	if b.locked {
		locked = held
	}
	p.stats.change(Use{Reserved: b.held}, Use{Reserved: held})
	p.stats.LockedBytes += locked - b.lockedBytes
	b.held, b.lockedBytes = held, locked
}

// lock page-locks a mapping if the options request it and the kernel has never refused.
func (p *Pool) lock(m []byte) bool {
	if !p.Stats().Locked {
		return false
	}
	err := lock(p.store.system, m)
	if err == nil {
		return true
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.stats.Locked {
		p.stats.Locked, p.stats.LockError = false, err
	}
	return false
}

// put takes a buffer back.
func (p *Pool) put(b *Buffer) {
	p.mu.Lock()
	_, ok := p.inUse[b]
	if ok {
		delete(p.inUse, b)
		p.stats.Real -= b.size
		p.releases++
		b.turn = p.releases
	}
	p.mu.Unlock()
	if !ok {
		panic("pinned: buffer released twice")
	}
	p.list(b)
}

// discard frees a buffer that the caller owns, or that is no longer listed and belongs to the
// holder of asking. It returns the number of bytes, or 0 if the Registrar keeps them for now. If a
// reader still holds the file, its pages live on with the reader.
func (p *Pool) discard(b *Buffer) int64 {
	if !p.unregister(b) {
		return 0
	}
	return p.destroy(b)
}

// destroy frees a buffer that is not registered.
func (p *Pool) destroy(b *Buffer) int64 {
	held := b.held
	b.destroy()
	p.hold(b, 0)
	report(p.budget.Release, held)
	return held
}

// Presize makes sure that n buffers of size bytes exist, so that n batches need no allocation: it
// gets and releases them. On an error, which says why there are fewer, those that exist stay.
func (p *Pool) Presize(size int64, n int) error {
	for range n {
		b, err := p.Get(size)
		if err != nil {
			return err
		}
		defer b.Release() // only at the end: otherwise Get would hand out a released one again
	}
	return nil
}

// Close frees every released buffer, and from now on each buffer on release. Readers that the
// kernel serves keep their bytes.
func (p *Pool) Close() {
	p.mu.Lock()
	p.closed = true
	released := slices.Clone(p.released)
	p.mu.Unlock()
	for _, b := range released {
		p.visit(b, false)
	}
}
