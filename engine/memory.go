package engine

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/batchfs/batchfs/pinned"
)

// defaultMemoryWait is how long an Open waits for its turn when the memory limit is used
// up.
const defaultMemoryWait = 10 * time.Second

// allocate gets memory for a batch, or for a copy of one. Other batches and the cache give
// way as reclaim allows. The error is errNoRoom if the memory limit leaves no room now, and
// ErrNoMemory if it never will or the kernel refuses.
func (e *Engine) allocate(b *batch, size int64) (*pinned.Buffer, error) {
	if most := e.opts.MemoryLimit - e.fixed.Load(); size > most {
		return nil, fmt.Errorf("%w: %s takes %d bytes, and the memory limit leaves %d for batches", ErrNoMemory, b.key, size, max(0, most))
	}
	for tries := 1; ; {
		before := e.ledger.returns()
		buf, err := e.pool.Get(size)
		switch {
		case err == nil:
			e.warnUnlocked()
			return buf, nil
		case errors.Is(err, pinned.ErrNoMemory):
			if !e.reclaim(b, size, before) {
				return nil, errNoRoom
			}
		case tries == 1 && e.giveBackIdle(): // the kernel refused
			tries++
		default:
			return nil, machineError(err)
		}
	}
}

// reserveScratch charges n bytes that a worker needs to decode an item.
func (e *Engine) reserveScratch(it item, n int64) error {
	for {
		before := e.ledger.returns()
		if e.ledger.reserve(useScratch, n) {
			return nil
		}
		if !e.reclaim(it.b, n, before) {
			return errNoRoom
		}
	}
}

// reclaim frees some memory for a batch that was refused n bytes. It returns false if
// nothing may give way, or if what gives way is not free yet. Idle memory and batches that
// were read give way to any batch; plans being computed, the cache and prefetched batches
// only to a batch that an Open waits for.
//
// before is Ledger.returns from before the refusal.
func (e *Engine) reclaim(b *batch, n int64, before uint64) bool {
	if e.pool.Trim() > 0 || e.ledger.returns() != before {
		return true
	}
	if found, free := e.takeFrom(b, before, spent); found {
		return free
	}
	if e.wanted(b) && (e.keeper.giveWay() > 0 || e.cache != nil && e.cache.Trim(n) > 0) {
		return true
	}
	_, free := e.takeFrom(b, before, laterTurn)
	return free
}

// takeFrom takes the memory back from a batch whose worth is at most most. found reports
// whether there was such a batch, or whether none is needed any more; free reports whether
// its memory is already free.
func (e *Engine) takeFrom(b *batch, before uint64, most int) (found, free bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed || b.state == failed {
		return true, false
	}
	b.refusedAt = before
	if e.ledger.returns() != before {
		return true, true
	}
	victim := e.victim(b, most)
	if victim == nil {
		if most == laterTurn && b.refs > 0 && e.idleItems > 0 { // the last resort
			e.scratchAsked++
			e.itemWork.Broadcast()
		}
		return false, false
	}
	free = victim.writers == 0
	e.takeBack(victim)
	return true, free
}

// victim picks the batch to take memory from: first one that was read and that nothing
// holds, oldest first; then, if an Open waits for b, a prefetched one, farthest from its
// reader first; then one whose first Open came after that of b.
func (e *Engine) victim(b *batch, most int) *batch {
	var best *batch
	worth := most + 1
	for _, v := range e.table {
		if v == b || v.state != laying && v.buf == nil {
			continue
		}
		w := e.worth(v, b)
		if w < worth || w == worth && best != nil && e.missedLess(v, best) {
			best, worth = v, w
		}
	}
	return best
}

// The worth of a batch's memory to its readers, in ascending order.
const (
	spent     = iota // was read, or its reader gave it up
	newest           // read last: another form of it, or a late rank, may follow
	foreseen         // prefetched
	laterTurn        // an Open that came later waits for it
	farMissed        // must not be taken
)

func (e *Engine) worth(v, b *batch) int {
	wanted := b.refs > 0
	switch {
	case v.refs > 0:
		// The reader of a copy waits for nothing but the copy, so any unfinished batch may
		// go.
		if wanted && v.state < ready && v.writers == 0 && (b.state == ready || v.asked > b.asked) {
			return laterTurn
		}
		return farMissed
	case v.opened && (v.state != ready || v.stream == nil || v.stream.newest() != v):
		return spent
	case !wanted:
		return farMissed
	case v.opened:
		return newest
	}
	return foreseen
}

func (e *Engine) missedLess(a, b *batch) bool {
	if a.refs > 0 {
		return a.asked > b.asked
	}
	if a.opened && b.opened {
		return a.openedAs < b.openedAs
	}
	return cmp.Compare(e.ahead(a), e.ahead(b)) > 0
}

// takeBack takes a batch's memory back.
func (e *Engine) takeBack(b *batch) {
	if b.refs > 0 {
		e.restart(b)
	} else {
		e.drop(b)
	}
}

// trimEvery is how often the cache has the pool trimmed at most, where nothing was released.
const trimEvery = 50 * time.Millisecond

// dropSpent frees the batch that was read longest ago of those that nobody holds, except
// the newest of each stream, and what that leaves idle, and tells whether there was any. The
// pool asks the kernel about each buffer that a reader may still see, so where nothing was
// released since, it is asked only now and then: the caller holds the cache's lock.
func (e *Engine) dropSpent() bool {
	e.mu.Lock()
	var oldest *batch
	for _, b := range e.table {
		if b.refs == 0 && b.opened && b.state == ready && b.stream != nil && b.stream.newest() != b && (oldest == nil || b.openedAs < oldest.openedAs) {
			oldest = b
		}
	}
	if oldest != nil {
		e.drop(oldest)
	}
	now := time.Now()
	due := e.released != e.trimmedAfter || now.Sub(e.trimmed) > trimEvery
	if due {
		e.trimmedAfter, e.trimmed = e.released, now
	}
	e.mu.Unlock()
	return due && e.pool.Trim() > 0
}

// giveBackIdle returns idle memory to the kernel when the kernel refuses memory or
// descriptors. It drops complete batches that nothing holds, and reports whether there was
// anything to give back.
func (e *Engine) giveBackIdle() bool {
	e.mu.Lock()
	var idle []*batch
	for _, b := range e.table {
		if b.refs == 0 && b.state == ready {
			idle = append(idle, b)
		}
	}
	for _, b := range idle {
		e.drop(b)
	}
	e.mu.Unlock()
	return e.pool.Trim() > 0 || len(idle) > 0
}

// waitForMemory puts a batch that was refused memory back into the queue. A batch that no
// Open waits for is dropped: prefetching only takes free memory.
func (e *Engine) waitForMemory(b *batch) {
	if b.refs == 0 {
		e.drop(b)
		return
	}
	if b.short.IsZero() {
		b.short = time.Now()
	}
	b.refused = true
	e.enqueue(b)
	e.ledger.await()
}

// parkIfRefused puts a batch without scratch memory back into the queue once none of its
// slots is in flight.
func (e *Engine) parkIfRefused(b *batch) {
	if b.state == making && b.refused && b.inFlight == 0 {
		e.making = without(e.making, b)
		e.waitForMemory(b)
	}
}

// waitsForMemory returns since when a batch waits for memory: since its own refusal or, in
// the queue, since the refusal of the batch that goes first. Zero: it does not wait for
// memory.
func (e *Engine) waitsForMemory(b *batch) time.Time {
	if b.state != queued || !b.short.IsZero() {
		return b.short
	}
	if first := e.mostImportant(e.queue, func(*batch) bool { return true }); first != nil && first.refused {
		return first.short
	}
	return time.Time{}
}

// watchMemory retries batches that were refused memory when some comes back. The kernel
// does not say when a reader unmaps a batch it has closed, so watchMemory also polls while
// a batch waits.
func (e *Engine) watchMemory() {
	const soonest, latest = 2 * time.Millisecond, 50 * time.Millisecond
	pause := soonest
	timer := time.NewTimer(pause)
	defer timer.Stop()
	timer.Stop()
	for {
		select {
		case <-e.closing:
			return
		case <-e.ledger.kicked:
		case <-timer.C:
			e.ledger.back.Add(1)
			pause = min(2*pause, latest)
		}
		e.mu.Lock()
		short := slices.ContainsFunc(e.queue, func(b *batch) bool { return b.refused })
		e.ledger.awaited.Store(short)
		e.takeWork.Broadcast()
		e.mu.Unlock()
		if short {
			timer.Reset(pause)
		} else {
			pause = soonest
		}
	}
}

// SetMemoryLimit changes the memory limit, in bytes, to at most Options.MemoryLimit.
// Memory that no reader uses is freed at once to meet it; open batches stay.
func (e *Engine) SetMemoryLimit(n int64) {
	e.ledger.setLimit(min(n, e.opts.MemoryLimit))
	for excess := e.ledger.excess(); excess > 0; excess = e.ledger.excess() {
		if e.pool.Trim() > 0 || e.keeper.giveWay() > 0 || e.cache != nil && e.cache.Trim(excess) > 0 {
			continue
		}
		if !e.giveBackIdle() {
			return
		}
	}
}
