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

// Stats describes a pool in bytes, in the words of DALI's memory statistics.
type Stats struct {
	Real        int64 // bytes of the buffers in use
	MaxReal     int64 // the largest single buffer asked for so far
	Reserved    int64 // bytes held in all: in use, seen by readers, and free
	MaxReserved int64 // the most that was ever held
	Seen        int64 // bytes of released buffers that readers may still see
	Buffers     int   // how many buffers exist
}

// A Pool hands out buffers and takes them back. It is safe for concurrent use.
type Pool struct {
	store  *Store
	budget Budget

	mu       sync.Mutex
	released []*Buffer // let go by the daemon, oldest first; readers may still see them
	stats    Stats
	closed   bool
}

// NewPool makes a pool over a store; the pool closes neither the store nor the
// budget.
func NewPool(store *Store, budget Budget) *Pool {
	return &Pool{store: store, budget: budget}
}

// Get returns a buffer of exactly size bytes, with unspecified contents. It
// fails with ErrNoMemory when the budget refuses; it never waits.
func (p *Pool) Get(size int64) (*Buffer, error) {
	if size < 0 {
		return nil, fmt.Errorf("a buffer of %d bytes", size)
	}
	b := p.take(size)
	if b == nil {
		b = &Buffer{pool: p, fd: -1}
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
	}
	if err := p.fit(b, size); err != nil {
		p.discard(b)
		return nil, err
	}
	b.released.Store(false)
	p.mu.Lock()
	p.stats.Real += size
	p.stats.MaxReal = max(p.stats.MaxReal, size)
	p.mu.Unlock()
	return b, nil
}

// take removes the idle buffer that fits best: the smallest that is large
// enough, else the largest, which then has the least to grow.
func (p *Pool) take(size int64) *Buffer {
	p.mu.Lock()
	defer p.mu.Unlock()
	best := -1
	for i, b := range p.released {
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

func fitsBetter(a, b *Buffer, size int64) bool {
	if (a.size >= size) != (b.size >= size) {
		return a.size >= size
	}
	if a.size >= size {
		return a.size < b.size
	}
	return a.size > b.size
}

// fit gives the buffer its size and settles the difference with the budget.
func (p *Pool) fit(b *Buffer, size int64) error {
	need := roundUp(size, pageSize)
	if more := need - b.charged; more > 0 {
		if !p.budget.Reserve(more) {
			return fmt.Errorf("%w for a batch of %d bytes", ErrNoMemory, size)
		}
		p.charge(b, more)
	}
	if err := b.resize(size); err != nil {
		return err
	}
	held := need
	if b.fd < 0 { // anonymous memory keeps what it has
		held = int64(len(b.mapping))
	}
	if less := b.charged - held; less > 0 {
		p.charge(b, -less)
		p.budget.Release(less)
	}
	return nil
}

func (p *Pool) charge(b *Buffer, n int64) {
	b.charged += n
	p.mu.Lock()
	p.stats.Reserved += n
	p.stats.MaxReserved = max(p.stats.MaxReserved, p.stats.Reserved)
	p.mu.Unlock()
}

// put takes a released buffer back.
func (p *Pool) put(b *Buffer) {
	p.mu.Lock()
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
	charged := b.charged
	p.charge(b, -charged)
	b.destroy()
	p.mu.Lock()
	p.stats.Buffers--
	p.mu.Unlock()
	p.budget.Release(charged)
}

// remove takes the i-th released buffer out, keeping the order; p.mu is held.
func (p *Pool) remove(i int) {
	p.released = append(p.released[:i], p.released[i+1:]...)
}

// Trim frees the released buffers that no reader sees, and returns how many
// bytes that were.
func (p *Pool) Trim() int64 {
	p.mu.Lock()
	var idle []*Buffer
	kept := p.released[:0]
	for _, b := range p.released {
		if b.idle() {
			idle = append(idle, b)
		} else {
			kept = append(kept, b)
		}
	}
	clear(p.released[len(kept):])
	p.released = kept
	p.mu.Unlock()

	var freed int64
	for _, b := range idle {
		freed += b.charged
		p.discard(b)
	}
	return freed
}

// Stats describes the pool as it is now.
func (p *Pool) Stats() Stats {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.stats
	s.Seen = 0
	for _, b := range p.released {
		if !b.idle() {
			s.Seen += b.charged
		}
	}
	return s
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
