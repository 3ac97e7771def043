package engine

import (
	"iter"
	"slices"
	"time"
)

// A worth ranks a batch's memory by what it is worth to its readers, in ascending order.
type worth int

const (
	worthSpent    worth = iota // was read, or its reader gave it up
	worthNewest                // read last: another form of it, or a late rank, may follow
	worthForeseen              // prefetched
	worthTooMuch               // must not be taken
)

// eviction takes the memory of batches for others, or for a cache.
type eviction struct{ batches *batches }

// takeFrom implements residents.
func (e *eviction) takeFrom(b *batch, before uint64, most worth) (found, free bool) {
	all := e.batches
	all.mu.Lock()
	defer all.mu.Unlock()
	if all.closed || b.state == failed {
		return true, false
	}
	b.refusedAt = before
	if all.memory.ledger.returns() != before {
		return true, true
	}
	victim := e.victim(b, most, e.inMemory())
	if victim == nil {
		if most == worthForeseen { // nothing else is left
			all.flow.trim()
		}
		came := all.memory.ledger.returns() != before
		return came, came
	}
	free = victim.writers == 0
	all.discard(victim)
	return true, free
}

// victim picks the one of least worth to take memory from for b: of those that were read, the
// oldest; of prefetched ones, the farthest from its reader.
func (e *eviction) victim(b *batch, most worth, of iter.Seq[*batch]) *batch {
	var best *batch
	for v := range of {
		if v == b || v == b.source {
			continue
		}
		if w := e.worthOf(v, b); w < most || w == most && (best == nil || e.missedLess(v, best)) {
			best, most = v, w
		}
	}
	return best
}

// inMemory yields the batches that have host memory, or are about to.
func (e *eviction) inMemory() iter.Seq[*batch] {
	return func(yield func(*batch) bool) {
		for _, b := range e.batches.table {
			if (slices.Contains(e.batches.schedule.layingOut, b) || b.buf != nil) && !yield(b) {
				return
			}
		}
	}
}

// worthOf is what the memory of v is worth if b needs it.
func (e *eviction) worthOf(v, b *batch) worth {
	switch {
	case v.refs > 0:
		return worthTooMuch
	case v.opened && (v.state != ready || !e.batches.isKnown(v) || !e.batches.streams.IsNewest(v.key)):
		return worthSpent
	case b.refs == 0:
		return worthTooMuch
	case v.opened:
		return worthNewest
	}
	return worthForeseen
}

// missedLess decides between two batches of the same worth.
func (e *eviction) missedLess(a, b *batch) bool {
	if a.opened {
		return a.openedAs < b.openedAs
	}
	return e.batches.streams.Distance(a.key) > e.batches.streams.Distance(b.key)
}

// isWanted implements residents.
func (e *eviction) isWanted(b *batch) bool {
	e.batches.mu.Lock()
	defer e.batches.mu.Unlock()
	return b.refs > 0
}

// dropOldestRead implements residents.
func (e *eviction) dropOldestRead() {
	e.batches.mu.Lock()
	defer e.batches.mu.Unlock()
	if b := e.victim(&batch{}, worthSpent, e.inMemory()); b != nil && b.state == ready {
		e.batches.discard(b)
	}
}

// dropUnheld implements residents.
func (e *eviction) dropUnheld() (dropped int) {
	e.batches.mu.Lock()
	defer e.batches.mu.Unlock()
	for _, b := range e.batches.table { // deleting from a map in a loop over it is fine
		if b.refs == 0 && b.state == ready && b.buf != nil {
			e.batches.discard(b)
			dropped++
		}
	}
	return dropped
}

// waitForMemory puts a batch that was refused memory back into the queue. If no Open waits for
// it, it is dropped: prefetching only takes free memory.
func (all *batches) waitForMemory(b *batch) {
	if b.refs == 0 {
		all.discard(b)
		return
	}
	if b.short.IsZero() {
		b.short = time.Now()
	}
	all.enqueue(b)
	all.memory.ledger.await()
}
