package engine

import (
	"cmp"
	"time"
)

// A worth ranks a batch's memory by what it is worth to its readers, in ascending order.
type worth int

const (
	worthSpent     worth = iota // was read, or its reader gave it up
	worthNewest                 // read last: another form of it, or a late rank, may follow
	worthForeseen               // prefetched
	worthLaterTurn              // an Open that came later waits for it
	worthTooMuch                // must not be taken
)

// takeFrom implements residents.
func (all *batches) takeFrom(b *batch, before uint64, most worth) (found, free bool) {
	all.mu.Lock()
	defer all.mu.Unlock()
	if all.closed || b.state == failed {
		return true, false
	}
	b.refusedAt = before
	if all.memory.ledger.returns() != before {
		return true, true
	}
	victim := all.victim(b, most)
	if victim == nil {
		if most == worthLaterTurn && b.refs > 0 && all.schedule.idleItems > 0 { // the last resort
			all.scratchAsked++
			all.itemWork.Broadcast()
		}
		return false, false
	}
	free = victim.writers == 0
	if victim.refs > 0 {
		all.startOver(victim)
	} else {
		all.discard(victim)
	}
	return true, free
}

// victim picks the batch to take memory from: first one that was read and that nothing
// holds, oldest first; then, if an Open waits for b, a prefetched one, farthest from its
// reader first; then one whose first Open came after that of b.
func (all *batches) victim(b *batch, most worth) *batch {
	var best *batch
	least := most + 1
	for _, v := range all.table {
		if v == b || v.state != laying && v.buf == nil {
			continue
		}
		w := worthOf(v, b)
		if w < least || w == least && best != nil && all.missedLess(v, best) {
			best, least = v, w
		}
	}
	return best
}

// worthOf is what the memory of v is worth if b needs it.
func worthOf(v, b *batch) worth {
	wanted := b.refs > 0
	switch {
	case v.refs > 0:
		if wanted && v.state < ready && v.writers == 0 && v.asked > b.asked {
			return worthLaterTurn
		}
		return worthTooMuch
	case v.opened && (v.state != ready || v.stream == nil || v.stream.newest() != v):
		return worthSpent
	case !wanted:
		return worthTooMuch
	case v.opened:
		return worthNewest
	}
	return worthForeseen
}

func (all *batches) missedLess(a, b *batch) bool {
	if a.refs > 0 {
		return a.asked > b.asked
	}
	if a.opened && b.opened {
		return a.openedAs < b.openedAs
	}
	return cmp.Compare(all.streams.distance(a), all.streams.distance(b)) > 0
}

// isWanted implements residents.
func (all *batches) isWanted(b *batch) bool {
	all.mu.Lock()
	defer all.mu.Unlock()
	return b.refs > 0
}

// dropOldestRead implements residents.
func (all *batches) dropOldestRead() {
	all.mu.Lock()
	defer all.mu.Unlock()
	if b := all.victim(&batch{}, worthSpent); b != nil && b.state == ready {
		all.discard(b)
	}
}

// dropUnheld implements residents.
func (all *batches) dropUnheld() (dropped int) {
	all.mu.Lock()
	defer all.mu.Unlock()
	for _, b := range all.table { // deleting from a map in a loop over it is fine
		if b.refs == 0 && b.state == ready {
			all.discard(b)
			dropped++
		}
	}
	return dropped
}

// waitForMemory puts a batch that was refused memory back into the queue. A batch that no
// Open waits for is dropped: prefetching only takes free memory.
func (all *batches) waitForMemory(b *batch) {
	if b.refs == 0 {
		all.discard(b)
		return
	}
	if b.short.IsZero() {
		b.short = time.Now()
	}
	b.refused = true
	all.enqueue(b)
	all.memory.ledger.await()
}

// parkIfRefused puts a batch without scratch memory back into the queue once none of its
// slots is in flight.
func (all *batches) parkIfRefused(b *batch) {
	if b.state == making && b.refused && b.inFlight == 0 {
		all.schedule.remove(b)
		all.waitForMemory(b)
	}
}
