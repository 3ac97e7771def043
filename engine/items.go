package engine

import (
	"cmp"
	"time"

	"github.com/batchfs/batchfs/gpu"
)

// An item is a slot handed to an item worker, for one turn of its batch.
type item struct {
	b    *batch
	slot int
	turn int
}

// isCurrent reports whether the result of an item is still wanted.
func (it item) isCurrent() bool { return it.b.turn == it.turn }

// claim waits for a slot to decode, in the most important batch. It returns false when the
// worker should end, and no item when it should give its memory back.
func (all *batches) claim(w *worker) (item, bool) {
	all.mu.Lock()
	defer all.mu.Unlock()
	for !all.closed {
		if all.crew.surplus() > 0 && len(w.hands) < 2 {
			all.crew.workers = without(all.crew.workers, w) // now, or the next worker that checks would end as well
			all.itemWork.Signal()                           // it may have been the one that was woken for a slot
			break
		}
		if b := all.schedule.mostImportant(all.schedule.making, all.schedule.hasSlots); b != nil {
			w.take(b)
			return w.item, true
		}
		if w.gave != all.scratchAsked {
			w.gave = all.scratchAsked
			return item{}, true
		}
		all.schedule.idleItems++
		if len(all.schedule.queue) > 0 {
			all.takeWork.Broadcast() // it may no longer be too early for the next batch
		}
		all.itemWork.Wait()
		all.schedule.idleItems--
	}
	return item{}, false
}

// wakeItemWorkers wakes as many as there are new slots. There may be hundreds of workers.
func (all *batches) wakeItemWorkers(slots int) {
	for range min(slots, all.schedule.idleItems) {
		all.itemWork.Signal()
	}
}

// take hands out the next slot of a batch.
func (w *worker) take(b *batch) {
	w.item = item{b, int(b.todo[0]), b.turn}
	b.todo = b.todo[1:]
	b.inFlight++
}

// claimBeside claims a slot of the worker's batch for its mate, unless other workers would lack slots then, or storage hangs.
func (all *batches) claimBeside(w *worker) bool {
	all.mu.Lock()
	defer all.mu.Unlock()
	b, left := w.item.b, 0
	for _, other := range all.schedule.making {
		left += len(other.todo)
	}
	if all.closed || !w.item.isCurrent() || b.refused || len(b.todo) == 0 || left < all.pairing() ||
		all.crew.stalled.Load() > 0 || w.lone == b {
		return false
	}
	w.hands[1].take(b)
	return true
}

// handBack returns the slot of a mate for which there is no memory, and what it has of that. The rest of the batch is
// decoded alone.
func (all *batches) handBack(mate *worker) {
	mate.giveBack()
	all.mu.Lock()
	defer all.mu.Unlock()
	b := mate.item.b
	mate.mateOf.lone = b
	if !mate.item.isCurrent() {
		return
	}
	all.again(b, mate.item.slot)
	b.inFlight--
	all.parkIfRefused(b)
}

// wants returns nil while the result of an item may be wanted. The lock is held.
func (all *batches) wants(it item) error {
	switch {
	case all.closed:
		return ErrClosed
	case !it.isCurrent():
		return errDropped
	}
	return nil
}

// stillWanted is wants for those that do not hold the lock.
func (all *batches) stillWanted(it item) error {
	all.mu.Lock()
	defer all.mu.Unlock()
	return all.wants(it)
}

// beginWriting requests permission to write into the item's slot. On success the batch's
// memory stays until endWriting.
func (all *batches) beginWriting(it item) error {
	all.mu.Lock()
	defer all.mu.Unlock()
	err := all.wants(it)
	if err == nil {
		it.b.writers++
	}
	return err
}

func (all *batches) endWriting(b *batch) {
	all.mu.Lock()
	defer all.mu.Unlock()
	if b.writers--; b.state == failed { // the batch was dropped meanwhile
		all.freeBuffer(b)
	}
}

// itemDone notes that an item was decoded, and where on the GPU it is alone (nil: it is in host memory), or why it could
// not be. If a sample is bad, the batch fails only once all samples were tried, so that one open reports every bad file.
func (all *batches) itemDone(it item, at *gpu.Slot, err error) {
	all.mu.Lock()
	defer all.mu.Unlock()
	if !it.isCurrent() {
		return
	}
	b := it.b
	b.inFlight--
	defer all.parkIfRefused(b)
	switch {
	case err == nil && at != nil && at != b.slot: // the batch has left the GPU
		all.again(b, it.slot)
		return
	case err == nil:
		if b.short = (time.Time{}); at != nil {
			b.onGPU[it.slot] = true
		}
	case causeOf(err) == ofTurn:
		b.todo = append(b.todo, int32(it.slot))
		b.refused = true
		return
	case causeOf(err) == ofFile && all.opts.OnError == Fail:
		b.bad = cmp.Or(b.bad, err)
	default:
		all.fail(b, err)
		return
	}
	if b.finished++; b.finished == 1 && all.crew.stalled.Load() > 0 {
		all.itemWork.Broadcast() // its storage answers
	}
	if b.items-b.finished == cap(all.schedule.processors.free) {
		all.takeWork.Broadcast() // the next batch may start now
	}
	all.completeIfDone(b)
}

// again hands a slot out once more.
func (all *batches) again(b *batch, slot int) {
	b.todo = append(b.todo, int32(slot))
	all.wakeItemWorkers(1)
}

// storageAnswered notes that a worker's read has returned.
func (all *batches) storageAnswered(w *worker) {
	all.mu.Lock()
	defer all.mu.Unlock()
	if !w.stalled {
		return
	}
	w.stalled = false
	all.crew.stalled.Add(-1)
	all.itemWork.Broadcast() // its batch hands out slots again
	all.takeWork.Broadcast()
}

// adapt lets the crew know that a sample is ready to be decoded.
func (all *batches) adapt() {
	p := all.schedule.processors
	ready, idle := int(p.ready.Load()), len(p.free) > 0
	if all.crew.limit == 0 || !idle && ready <= enoughReady*cap(p.free) {
		return
	}
	all.mu.Lock()
	defer all.mu.Unlock()
	if !all.closed {
		all.crew.adapt(cap(p.free), ready, idle && all.schedule.idleItems == 0)
	}
}
