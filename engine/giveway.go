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
	victim := all.victim(b, most, all.inMemory())
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
func (all *batches) victim(b *batch, most worth, of iter.Seq[*batch]) *batch {
	var best *batch
	for v := range of {
		if v == b || v == b.source {
			continue
		}
		if w := worthOf(v, b); w < most || w == most && (best == nil || all.missedLess(v, best)) {
			best, most = v, w
		}
	}
	return best
}

// inMemory yields the batches that have host memory, or are about to.
func (all *batches) inMemory() iter.Seq[*batch] {
	return func(yield func(*batch) bool) {
		for _, b := range all.table {
			if (slices.Contains(all.schedule.layingOut, b) || b.buf != nil) && !yield(b) {
				return
			}
		}
	}
}

// worthOf is what the memory of v is worth if b needs it.
func worthOf(v, b *batch) worth {
	switch {
	case v.refs > 0:
		return worthTooMuch
	case v.opened && (v.state != ready || v.stream == nil || v.stream.newest() != v):
		return worthSpent
	case b.refs == 0:
		return worthTooMuch
	case v.opened:
		return worthNewest
	}
	return worthForeseen
}

// missedLess decides between two batches of the same worth.
func (all *batches) missedLess(a, b *batch) bool {
	if a.opened {
		return a.openedAs < b.openedAs
	}
	return all.streams.distance(a) > all.streams.distance(b)
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
	if b := all.victim(&batch{}, worthSpent, all.inMemory()); b != nil && b.state == ready {
		all.discard(b)
	}
}

// dropUnheld implements residents.
func (all *batches) dropUnheld() (dropped int) {
	all.mu.Lock()
	defer all.mu.Unlock()
	for _, b := range all.table { // deleting from a map in a loop over it is fine
		if b.refs == 0 && b.state == ready && b.buf != nil {
			all.discard(b)
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

// Where the kernel does not say when a reader unmaps a batch it has closed, memory is asked
// for again after these pauses.
const (
	soonestRetry = 2 * time.Millisecond
	latestRetry  = 50 * time.Millisecond
)

// watch looks after storage that hangs, streams that are idle, and batches that were refused
// memory, which are tried again when some comes back, and now and then.
func (all *batches) watch() {
	ledger, pause := all.memory.ledger, soonestRetry
	storage, idle, retry := time.NewTicker(stallAfter/4), time.NewTimer(all.opts.IdleAfter), time.NewTimer(pause)
	defer storage.Stop()
	defer idle.Stop()
	defer retry.Stop()
	retry.Stop()
	for {
		select {
		case <-all.ctx.Done():
			return
		case now := <-storage.C:
			all.replaceStalled(now)
			continue
		case <-idle.C:
			idle.Reset(all.endIdle())
			continue
		case <-ledger.kicked:
		case <-retry.C:
			ledger.back.Add(1)
			pause = min(2*pause, latestRetry)
		}
		if all.retryRefused() {
			retry.Reset(pause)
		} else {
			pause = soonestRetry
		}
	}
}

func (all *batches) replaceStalled(now time.Time) {
	all.mu.Lock()
	defer all.mu.Unlock()
	if !all.closed {
		all.flow.standIn(all.hung.find(now))
		all.flow.loadAhead()
		all.takeWork.Broadcast()
	}
}

// endIdle ends streams that have not been read for a while, and returns the memory of their
// batches to the system. It returns the time until another stream may be idle.
func (all *batches) endIdle() time.Duration {
	all.mu.Lock()
	ended, wait := all.streams.endIdle(time.Now(), all.opts.IdleAfter)
	// Trim without streams, too: readers may have closed batches that outlived theirs.
	trim := ended > 0 || len(all.streams.byShard) == 0
	all.mu.Unlock()
	if trim {
		all.memory.pool.Trim()
	}
	return max(wait, time.Millisecond)
}

// retryRefused has batches and loads that were refused memory tried again, and reports whether there
// are any.
func (all *batches) retryRefused() bool {
	all.mu.Lock()
	defer all.mu.Unlock()
	short := len(all.flow.room.waiting) > 0 || slices.ContainsFunc(all.schedule.queue, (*batch).refused)
	all.memory.ledger.awaited.Store(short)
	all.takeWork.Broadcast()
	all.flow.room.some.Broadcast()
	return short
}
