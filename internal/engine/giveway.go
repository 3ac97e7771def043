package engine

import (
	"iter"
	"time"

	"github.com/batchfs/batchfs/layout"
)

// A worth ranks a batch's memory by what it is worth to its readers, in ascending order.
type worth int

const (
	worthSpent    worth = iota // was read, or given up by its reader
	worthNewest                // read last: a reader may still want another form of it, or a late rank may read it
	worthForeseen              // prefetched
	worthTooMuch               // must not be taken
)

// eviction takes the memory of batches for others, or for a cache.
type eviction struct{ *batches }

// takeFrom drops a batch of those in of, worth at most most, for b. b was refused memory when
// ledger.returns was before. found reports whether there was any, or whether none is needed any
// more; free, whether its memory is free already.
func (e eviction) takeFrom(of iter.Seq[*batch], b *batch, before uint64, most worth) (found, free bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	switch {
	case e.closed || b.state == failed:
		return true, false
	case e.memory.ledger.returns() != before:
		return true, true
	}
	victim := e.victim(b, most, of)
	if victim == nil {
		return false, false
	}
	// The GPU may still be working in the memory there of a batch in the making.
	free = victim.writers == 0 && (victim.slot == nil || victim.state == ready)
	e.discard(victim)
	return true, free
}

// trim frees what loads, drawers and the GPU's workers keep for the next sample, and reports
// whether memory came back since ledger.returns was before.
func (e eviction) trim(before uint64) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.flow.trim()
	for _, w := range e.device.workers {
		w.trim()
	}
	return e.memory.ledger.returns() != before
}

// victim picks the batch of least worth, to take its memory for b: of those that were read, the
// oldest; of prefetched ones, the farthest from its reader.
func (e eviction) victim(b *batch, most worth, of iter.Seq[*batch]) *batch {
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
func (e eviction) inMemory() iter.Seq[*batch] {
	return func(yield func(*batch) bool) {
		for _, b := range e.table {
			if (b.state == layingOut || b.buf != nil) && !yield(b) {
				return
			}
		}
	}
}

// onGPU yields the batches that have memory on the GPU.
func (e eviction) onGPU() iter.Seq[*batch] {
	return func(yield func(*batch) bool) {
		for _, b := range e.table {
			for _, b := range []*batch{b, b.copies[layout.CUDA]} {
				if b != nil && b.state > layingOut && b.slot != nil && !yield(b) {
					return
				}
			}
		}
	}
}

// worthOf is what the memory of v is worth if b needs it.
func (e eviction) worthOf(v, b *batch) worth {
	switch {
	case v.refs > 0:
		return worthTooMuch
	case v.opened && (v.state != ready || !e.isKnown(v) || !e.streams.IsNewest(v.key)):
		return worthSpent
	case b.refs == 0:
		return worthTooMuch
	case v.opened:
		return worthNewest
	}
	return worthForeseen
}

// missedLess decides between two batches of the same worth.
func (e eviction) missedLess(a, b *batch) bool {
	if a.opened {
		return a.openedAs < b.openedAs
	}
	return e.streams.Distance(a.key) > e.streams.Distance(b.key)
}

// holds reports whether an Open or an open file holds a batch.
func (e eviction) holds(b *batch) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return b.refs > 0
}

// dropOldestRead drops the batch that was read longest ago and that nothing holds, except the
// newest of each stream.
func (e eviction) dropOldestRead() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if b := e.victim(&batch{}, worthSpent, e.inMemory()); b != nil && b.state == ready {
		e.discard(b)
	}
}

// dropUnheld drops all complete batches that nothing holds, and counts them.
func (e eviction) dropUnheld() (dropped int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, b := range e.table { // deleting from a map in a loop over it is fine
		if b.refs == 0 && b.state == ready && b.buf != nil {
			e.discard(b)
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
