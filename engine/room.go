package engine

import (
	"cmp"
	"slices"
	"sync"
	"time"
)

// room is where loads wait for memory. A load that is refused memory gives up what it has, and
// waits until it is admitted with all that it asked for. Loads that ask for no more than the room
// that is left for one are admitted in any order, and sooner or later, as others end. Of the larger
// ones, only the load for the most important batch is admitted. While it waits, no less important
// batch begins. Those that have begun are completed, and give back the memory that it waits for.
//
// The lock of the batches guards it.
type room struct {
	*batches

	waiting []*load
	some    sync.Cond // there may be some memory
}

// An amount is what a sample takes, in bytes.
type amount struct {
	input   int64 // encoded
	drawing int64 // while its pixels are made, beside its batch; 0: not known yet
}

// await waits until a load has the memory it asked for. It returns an error if the sample is no
// longer wanted, or can never have so much.
func (r *room) await(l *load) error {
	l.input.giveBack()
	b, ledger := l.item.batch, r.memory.ledger
	impossible := r.memory.fits(b, l.input.asks.input+l.input.asks.drawing)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.notLarge(l)
	if !slices.Contains(r.waiting, l) {
		r.begin(l)
	}
	defer r.end(l)
	for {
		if err := cmp.Or(impossible, l.item.wanted()); err != nil {
			return err
		}
		before := ledger.returns()
		if r.schedule.firstWaiting() == l || l.input.asks.input <= ledger.load && l.input.asks.drawing <= ledger.drawing {
			if r.admit(l, false) {
				return nil
			}
			r.mu.Unlock()
			some := r.memory.reclaim(b, l.input.asks.input+l.input.asks.drawing, before)
			r.mu.Lock()
			if some || ledger.returns() != before || l.item.wanted() != nil { // memory may have come back, or the sample may have ended, in the meantime
				continue
			}
			only := r.flow.isIdle()
			if only {
				r.flow.trim() // so that there is room for what is admitted without asking the ledger
			}
			if r.admit(l, only) {
				return nil
			}
		}
		r.some.Wait()
	}
}

// awaitReturn is for a load that has too little memory on the GPU. The load gives up what it has,
// and waits until some comes back. It returns an error if the sample is no longer wanted.
func (r *room) awaitReturn(l *load) error {
	l.input.giveBack()
	l.readBefore = true
	before := r.memory.ledger.returns()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.notLarge(l)
	r.begin(l)
	defer r.end(l)
	for l.item.wanted() == nil && r.memory.ledger.returns() == before {
		r.some.Wait()
	}
	return l.item.wanted()
}

func (r *room) begin(l *load) {
	if b := l.item.batch; b.short.IsZero() {
		b.short = time.Now()
	}
	r.waiting = append(r.waiting, l)
	r.memory.ledger.await()
}

func (r *room) end(l *load) {
	if r.waiting = without(r.waiting, l); len(r.waiting) > 0 {
		r.some.Broadcast()
	} else {
		r.flow.resume()
	}
}

// notShort notes that a batch has got some memory, or continues without it.
func (r *room) notShort(b *batch) {
	if b.short.IsZero() {
		return
	}
	b.short = time.Time{}
	if r.hasWaiting(b) {
		b.short = time.Now()
	}
}

// hasWaiting reports whether a load for a batch waits for memory.
func (r *room) hasWaiting(b *batch) bool {
	return slices.ContainsFunc(r.waiting, func(l *load) bool { return l.item.batch == b })
}

// admit gives a load what it asks for, if there is enough.
func (r *room) admit(l *load, only bool) bool {
	if !r.memory.ledger.admitLoad(l.input.asks.input, l.input.asks.drawing, only) {
		return false
	}
	l.input.charged = l.input.asks.input
	r.isLarge(l, l.input.asks.drawing)
	r.waiting = without(r.waiting, l)
	r.notShort(l.item.batch)
	return true
}

// makeReady leaves room for drawing the sample that a load has read. The error is errNoRoom if
// there is too little.
func (r *room) makeReady(l *load) error {
	n, ledger := l.sample.needs, r.memory.ledger
	if err := r.memory.fits(l.item.batch, l.input.charged+n); err != nil || n <= max(ledger.drawing, l.room) {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if !ledger.admitLoad(0, n, false) {
		l.input.asks = amount{l.input.charged, n}
		return errNoRoom
	}
	r.isLarge(l, n)
	return nil
}

// isLarge notes that room is left for drawing the sample of a load.
func (r *room) isLarge(l *load, drawing int64) {
	if drawing > r.memory.ledger.drawing {
		l.room = drawing
	}
}

// notLarge notes that this room is not needed any more.
func (r *room) notLarge(l *load) {
	if l.room == 0 {
		return
	}
	l.room = 0
	most := int64(0)
	for _, other := range r.flow.hungReads.loads {
		most = max(most, other.room)
	}
	r.memory.ledger.setReady(most)
}
