package engine

import (
	"github.com/batchfs/batchfs/internal/fault"
	"github.com/batchfs/batchfs/internal/gpu"
	"github.com/batchfs/batchfs/shard"
)

// An item is a slot handed to a load.
type item struct {
	batches *batches
	b       *batch
	slot    int
}

// of is the slot's sample, and the epoch that it is read in.
func (it item) of() shard.Slot { return it.b.slots[it.slot] }

// isCurrent reports whether the result of an item is still wanted.
func (it item) isCurrent() bool { return it.b.state < ready }

// take hands out the next slot of a batch.
func (l *load) take(b *batch) {
	l.item, l.again, l.input.asks = item{l.batches, b, int(b.todo[0])}, false, amount{}
	l.sample.instead, l.half = "", b.key.Part.First()
	l.others.forget()
	b.inFlight++
	if b.todo = b.todo[1:]; len(b.todo) == 0 {
		l.batches.takeWork.Broadcast() // the next batch may start now
	}
}

// handBack returns a slot that a GPU worker has too little memory for. It cannot wait for more
// while it holds the samples of other slots.
func (l *load) handBack() {
	l.input.giveBack()
	all := l.batches
	all.mu.Lock()
	defer all.mu.Unlock()
	all.flow.room.notLarge(l)
	if b := l.item.b; l.item.isCurrent() {
		b.inFlight--
		all.again(b, l.item.slot)
	}
}

// wanted returns nil while the sample may be wanted. The lock is held.
func (it item) wanted() error {
	switch {
	case it.batches.closed:
		return ErrClosed
	case !it.isCurrent():
		return errDropped
	}
	return nil
}

// stillWanted is wanted for those that do not hold the lock.
func (it item) stillWanted() error {
	it.batches.mu.Lock()
	defer it.batches.mu.Unlock()
	return it.wanted()
}

// beginWriting requests permission to write into the slot. On success the batch's memory stays
// until endWriting.
func (it item) beginWriting() error {
	it.batches.mu.Lock()
	defer it.batches.mu.Unlock()
	err := it.wanted()
	if err == nil {
		it.b.writers++
	}
	return err
}

func (it item) endWriting() {
	it.batches.mu.Lock()
	defer it.batches.mu.Unlock()
	if it.b.writers--; it.b.state == failed { // the batch was dropped meanwhile
		it.b.free(it.batches.memory)
	}
}

// itemDone notes that an item was decoded, and where on the GPU it is alone (nil: it is in host
// memory), or why it could not be. If a sample is bad, the batch fails only once all samples were
// tried, so that one open reports every bad file.
func (all *batches) itemDone(it item, at *gpu.Slot, err error) {
	all.mu.Lock()
	defer all.mu.Unlock()
	if !it.isCurrent() {
		return
	}
	b := it.b
	b.inFlight--
	switch {
	case err == nil && at != nil && at != b.slot: // the batch has left the GPU
		all.again(b, it.slot)
		return
	case err == nil:
		if all.flow.room.notShort(b); at != nil {
			b.onGPU[it.slot] = true
		}
	case fault.Of(err) == fault.File && all.opts.OnError == Fail:
		if b.bad == nil || it.slot < b.badSlot {
			b.bad, b.badSlot = err, it.slot
		}
	default:
		all.fail(b, err)
		return
	}
	if b.finished++; b.finished == 1 && all.flow.hung.count.Load() > 0 {
		all.flow.moreSlots(len(b.todo)) // its storage answers
	}
	all.completeIfDone(b)
}

// again hands a slot out once more.
func (all *batches) again(b *batch, slot int) {
	b.todo = append(b.todo, int32(slot))
	all.flow.moreSlots(1)
}

// storageAnswered notes that a load's read has returned.
func (l *load) storageAnswered() {
	all := l.batches
	all.mu.Lock()
	defer all.mu.Unlock()
	if !l.stalled {
		return
	}
	l.stalled = false
	all.flow.hung.count.Add(-1)
	all.flow.moreSlots(len(all.flow.drawers)) // its batch hands out slots again
	all.takeWork.Broadcast()
}
