package pinned

import (
	"fmt"
	"sync"
)

// A Budget decides how much memory a pool may hold.
type Budget interface {
	// Reserve charges n bytes, or refuses.
	Reserve(n int64) bool
	// Release gives n charged bytes back.
	Release(n int64)
}

// PoolOptions are a pool's settings; the zero value is what NewPool uses.
type PoolOptions struct {
	// Lock asks for the buffers to be page-locked. Where the kernel refuses they
	// are ordinary memory, and Stats says so.
	Lock bool
	// Growth, from 1 to 4: a buffer that has to grow becomes at least this many
	// times as large as it was, if the budget has room. 0 counts as 1.
	Growth float64
}

// A Pool hands out buffers and takes them back. It is safe for concurrent use.
type Pool struct {
	store   *Store
	budget  Budget
	options PoolOptions

	mu        sync.Mutex
	owned     map[*Buffer]struct{} // handed out
	released  []*Buffer            // let go by the daemon, oldest first; readers may still see them
	stats     Stats
	lockError error // the first refusal; nothing is locked after it
	closed    bool
}

// NewPool makes a pool over a store; the pool closes neither the store nor the
// budget.
func NewPool(store *Store, budget Budget) *Pool { return NewPoolWith(store, budget, PoolOptions{}) }

// NewPoolWith is NewPool with settings.
func NewPoolWith(store *Store, budget Budget, o PoolOptions) *Pool {
	return &Pool{store: store, budget: budget, options: o, owned: map[*Buffer]struct{}{}}
}

// Get returns a buffer of exactly size bytes, with unspecified contents. It
// fails with ErrNoMemory when the budget refuses; it never waits.
func (p *Pool) Get(size int64) (*Buffer, error) {
	if size < 0 {
		return nil, fmt.Errorf("a buffer of %d bytes", size)
	}
	b := p.take(size)
	if b == nil {
		var err error
		if b, err = p.open(); err != nil {
			return nil, err
		}
	}
	if err := p.fit(b, size); err != nil {
		p.discard(b)
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

// Presize makes sure that n buffers of size bytes can be had at once without
// allocating: it gets and releases them. The error says why there are fewer; those
// stay.
func (p *Pool) Presize(size int64, n int) error {
	var buffers []*Buffer
	defer func() { // when all are there: a released one would be handed out again
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

// open makes a buffer without any memory.
func (p *Pool) open() (*Buffer, error) {
	b := &Buffer{pool: p, fd: -1}
	if p.store.Files() {
		fd, err := p.store.File()
		if err != nil {
			return nil, noMemory(err)
		}
		b.fd = fd
	}
	p.mu.Lock()
	p.stats.Buffers++
	p.mu.Unlock()
	return b, nil
}

// take removes the idle buffer that fits best; of equals the one that was released
// last, which the processor's cache is likeliest to hold some of.
func (p *Pool) take(size int64) *Buffer {
	p.mu.Lock()
	defer p.mu.Unlock()
	best := -1
	for i := len(p.released) - 1; i >= 0; i-- {
		b := p.released[i]
		if best >= 0 && !fitsBetter(b, p.released[best], size) {
			continue
		}
		if b.idle() {
			best = i
		}
	}
	if best < 0 {
		return nil
	}
	b := p.released[best]
	p.remove(best)
	return b
}

// fitsBetter prefers the buffer that holds the least of those that hold enough,
// else the one that holds the most, which then has the least to grow. Of two that
// hold the same it is the one whose size changes less, since pages that come and
// go have to be cleared.
func fitsBetter(a, b *Buffer, size int64) bool {
	need := roundUp(size, pageSize)
	enough := a.held >= need
	switch {
	case enough != (b.held >= need):
		return enough
	case a.held == b.held:
		return distance(a.size, size) < distance(b.size, size)
	}
	return (a.held < b.held) == enough
}

func distance(a, b int64) int64 { return max(a-b, b-a) }

// fit gives a buffer that nobody else knows of its size, and settles the
// difference with the budget.
func (p *Pool) fit(b *Buffer, size int64) error {
	target, err := p.reserve(b.held, size)
	if err != nil {
		return err
	}
	held, err := b.resize(size, target)
	if err != nil {
		held = b.held // which discarding it gives back
	}
	if less := target - held; less > 0 {
		p.budget.Release(less)
	}
	p.hold(b, held)
	return err
}

// reserve charges what a buffer that holds held bytes will hold once it has grown
// to size: max(size, held*growth) in whole pages, or just size where the budget has
// no room for the margin. Buffers only grow.
func (p *Pool) reserve(held, size int64) (int64, error) {
	need := roundUp(size, pageSize)
	if need <= held {
		return held, nil
	}
	if target := grown(held, need, p.options.Growth, pageSize); target > need && p.budget.Reserve(target-held) {
		return target, nil
	}
	if !p.budget.Reserve(need - held) {
		return 0, fmt.Errorf("%w for a batch of %d bytes", ErrNoMemory, size)
	}
	return need, nil
}

func (p *Pool) hold(b *Buffer, held int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stats.Reserved += held - b.held
	p.stats.MaxReserved = max(p.stats.MaxReserved, p.stats.Reserved)
	b.held = held
}

// lock page-locks a mapping, if that was asked for and was never refused.
func (p *Pool) lock(m []byte) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.options.Lock || p.lockError != nil {
		return false
	}
	p.lockError = lock(m)
	return p.lockError == nil
}

// put takes a released buffer back.
func (p *Pool) put(b *Buffer) {
	p.mu.Lock()
	delete(p.owned, b)
	p.stats.Real -= b.size
	closed := p.closed
	if !closed {
		p.released = append(p.released, b)
	}
	p.mu.Unlock()
	if closed {
		p.discard(b)
	}
}

// discard frees a buffer that nobody will use again. If a reader still holds the
// file, its pages live on with the reader.
func (p *Pool) discard(b *Buffer) {
	held := b.held
	p.hold(b, 0)
	b.destroy()
	p.mu.Lock()
	p.stats.Buffers--
	p.mu.Unlock()
	p.budget.Release(held)
}

// remove takes the i-th released buffer out, keeping the order; p.mu is held.
func (p *Pool) remove(i int) {
	p.released = append(p.released[:i], p.released[i+1:]...)
}

// Close frees every released buffer, and from now on each buffer as it is
// released. Readers whom the kernel serves keep their bytes.
func (p *Pool) Close() {
	p.mu.Lock()
	released := p.released
	p.released, p.closed = nil, true
	p.mu.Unlock()
	for _, b := range released {
		p.discard(b)
	}
}
