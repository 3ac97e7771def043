package dataset

import (
	"context"
	"sync"
)

// usualMemory is how many bytes opening a dataset may hold of what it reads, unless Options.Memory
// says less: enough to search 12 objects of a store at a time.
const usualMemory = 12 * scanBlock

// An allowance is memory that the goroutines which open a dataset share. A goroutine that finds too
// little of it left waits. One at a time may take more than there is, so that nothing is too large
// to be read, and the others never depend on one that waits.
type allowance struct {
	mu     sync.Mutex
	back   sync.Cond
	left   int64
	beyond *holding // takes what it needs
}

// A holding is what one goroutine has of an allowance.
type holding struct {
	from *allowance
	ctx  context.Context // ends waiting
	n    int64
}

func newAllowance(bytes int64) *allowance {
	a := &allowance{left: bytes}
	a.back.L = &a.mu
	return a
}

func (a *allowance) holding(ctx context.Context) *holding { return &holding{from: a, ctx: ctx} }

// take is to be called before n more bytes are allocated, or after -n were given up. The error is
// the context's.
func (h *holding) take(n int64) error {
	a := h.from
	a.mu.Lock()
	defer a.mu.Unlock()
	if n > a.left && !a.claim(h) {
		defer context.AfterFunc(h.ctx, func() {
			a.mu.Lock()
			defer a.mu.Unlock()
			a.back.Broadcast()
		})()
		for n > a.left && !a.claim(h) {
			if err := h.ctx.Err(); err != nil {
				return err
			}
			a.back.Wait()
		}
	}
	a.left -= n
	h.n += n
	if n < 0 {
		a.back.Broadcast()
	}
	return nil
}

// claim makes h the one that may take more than there is, unless another is.
func (a *allowance) claim(h *holding) bool {
	if a.beyond == nil {
		a.beyond = h
	}
	return a.beyond == h
}

// release gives back all of it.
func (h *holding) release() {
	a := h.from
	a.mu.Lock()
	defer a.mu.Unlock()
	a.left += h.n
	h.n = 0
	if a.beyond == h {
		a.beyond = nil
	}
	a.back.Broadcast()
}
