package engine

import (
	"cmp"
	"slices"
	"time"
)

// A load that the ledger refuses memory gives up what it has, and waits here until it is admitted with all that it
// asked for. Those that ask for no more than the room that is left for one are admitted in any order, and sooner or later,
// as others end. Of the others, the one for the most important batch is. While it waits, no less important
// batch is begun; those that were are completed, and give back what it waits for.

// An amount is what a sample takes, in bytes.
type amount struct {
	input   int64 // encoded
	drawing int64 // while its pixels are made, beside its batch; 0: not known yet
}

// awaitRoom waits until a load has the memory it asked for. It returns an error if the sample is no longer wanted, or can
// never have as much.
func (all *batches) awaitRoom(l *load) error {
	l.giveBack()
	b, f, ledger := l.item.b, all.flow, all.memory.ledger
	impossible := all.memory.fits(b, l.asks.input+l.asks.drawing)
	all.mu.Lock()
	defer all.mu.Unlock()
	all.notLarge(l)
	if !slices.Contains(all.flow.waiting, l) {
		all.beginWaiting(l)
	}
	defer all.endWaiting(l)
	for {
		if err := cmp.Or(impossible, all.wants(l.item)); err != nil {
			return err
		}
		before := ledger.returns()
		if all.firstWaiting() == l || l.asks.input <= ledger.load && l.asks.drawing <= ledger.drawing {
			if all.admit(l, false) {
				return nil
			}
			all.mu.Unlock()
			some := all.memory.reclaim(b, l.asks.input+l.asks.drawing, before)
			all.mu.Lock()
			if some || ledger.returns() != before {
				continue
			}
			if all.admit(l, all.noneUnderWay()) {
				return nil
			}
		}
		f.room.Wait()
	}
}

// awaitReturn waits until some memory comes back, or the sample of a load is no longer wanted.
func (all *batches) awaitReturn(l *load) {
	before := all.memory.ledger.returns()
	all.mu.Lock()
	defer all.mu.Unlock()
	all.beginWaiting(l)
	defer all.endWaiting(l)
	for all.wants(l.item) == nil && all.memory.ledger.returns() == before {
		all.flow.room.Wait()
	}
}

func (all *batches) beginWaiting(l *load) {
	if b := l.item.b; b.short.IsZero() {
		b.short = time.Now()
	}
	all.flow.waiting = append(all.flow.waiting, l)
	all.memory.ledger.await()
}

func (all *batches) endWaiting(l *load) {
	f := all.flow
	if f.waiting = without(f.waiting, l); len(f.waiting) > 0 {
		f.room.Broadcast()
	} else {
		all.takeWork.Broadcast()
		all.loadAhead()
	}
}

// notShort notes that a batch has got some memory, or goes on without.
func (all *batches) notShort(b *batch) {
	if b.short.IsZero() {
		return
	}
	b.short = time.Time{}
	if all.flow.waits(b) {
		b.short = time.Now()
	}
}

// waits reports whether a load for a batch waits for memory.
func (f *flow) waits(b *batch) bool {
	return slices.ContainsFunc(f.waiting, func(l *load) bool { return l.item.b == b })
}

// firstWaiting is the load that gets memory first; nil: none waits.
func (all *batches) firstWaiting() *load { return all.schedule.firstWaiting() }

// noneUnderWay reports whether no sample has memory but those whose reads hang.
func (all *batches) noneUnderWay() bool {
	f := all.flow
	return f.resting == len(f.drawers) && len(f.ready) == 0 && f.loading-len(f.waiting) <= int(all.hung.count.Load())
}

// admit gives a load what it asks for, if there is as much.
func (all *batches) admit(l *load, only bool) bool {
	if !all.memory.ledger.admitLoad(l.asks.input, l.asks.drawing, only) {
		return false
	}
	l.charged = l.asks.input
	all.isLarge(l, l.asks.drawing)
	all.flow.waiting = without(all.flow.waiting, l)
	all.notShort(l.item.b)
	return true
}

// makeReady leaves room for drawing the sample that a load has read. The error is errNoRoom if there is too little.
func (all *batches) makeReady(l *load) error {
	n, ledger := l.sample.needs, all.memory.ledger
	if err := all.memory.fits(l.item.b, l.charged+n); err != nil || n <= max(ledger.drawing, l.room) {
		return err
	}
	all.mu.Lock()
	defer all.mu.Unlock()
	if !ledger.admitLoad(0, n, false) {
		l.asks = amount{l.charged, n}
		return errNoRoom
	}
	all.isLarge(l, n)
	return nil
}

// isLarge notes that room is left for drawing the sample of a load.
func (all *batches) isLarge(l *load, drawing int64) {
	if drawing <= all.memory.ledger.drawing {
		return
	}
	if l.room = drawing; !slices.Contains(all.flow.large, l) {
		all.flow.large = append(all.flow.large, l)
	}
}

// notLarge notes that no room is left for that any more.
func (all *batches) notLarge(l *load) {
	f := all.flow
	if l.room == 0 {
		return
	}
	l.room = 0
	f.large = without(f.large, l)
	most := int64(0)
	for _, other := range f.large {
		most = max(most, other.room)
	}
	all.memory.ledger.setReady(most)
}
