package dataset

import (
	"context"
	"sync"
)

// usualMemory is how many bytes of input an opening may hold unless Options.Memory says less:
// enough to search 12 objects of a store at a time.
const usualMemory = 12 * scanBlock

// An allowance is memory shared by the goroutines that open a dataset. A goroutine that asks for
// more than is left waits. One goroutine at a time may exceed the allowance, so that nothing is too
// large to be read. The others never depend on a goroutine that waits.
type allowance struct {
	mu     sync.Mutex
	back   sync.Cond
	left   int64
	beyond *holding // may take more than is left
}

// A holding is one goroutine's share of an allowance.
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

// take must be called before n more bytes are allocated, or with -n after n bytes were freed. It
// fails only with the context's error.
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

// claim lets h exceed the allowance, unless another holding already does.
func (a *allowance) claim(h *holding) bool {
	if a.beyond == nil {
		a.beyond = h
	}
	return a.beyond == h
}

// release gives back everything that h holds.
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
