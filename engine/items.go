package engine

import "github.com/batchfs/batchfs/gpu"

// An item is a slot handed to a load.
type item struct {
	b    *batch
	slot int
}

// isCurrent reports whether the result of an item is still wanted.
func (it item) isCurrent() bool { return it.b.state < ready }

// take hands out the next slot of a batch.
func (l *load) take(b *batch) {
	l.item, l.again, l.asks = item{b, int(b.todo[0])}, false, amount{}
	b.inFlight++
	if b.todo = b.todo[1:]; len(b.todo) == 0 {
		l.batches.takeWork.Broadcast() // the next batch may start now
	}
}

// handBack returns a slot that a GPU worker has too little memory for. It cannot wait for more while
// it holds the samples of other slots.
func (l *load) handBack() {
	l.giveBack()
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
func (l *load) wanted() error {
	switch {
	case l.batches.closed:
		return ErrClosed
	case !l.item.isCurrent():
		return errDropped
	}
	return nil
}

// stillWanted is wanted for those that do not hold the lock.
func (l *load) stillWanted() error {
	l.batches.mu.Lock()
	defer l.batches.mu.Unlock()
	return l.wanted()
}

// beginWriting requests permission to write into the slot. On success the batch's memory stays
// until endWriting.
func (l *load) beginWriting() error {
	l.batches.mu.Lock()
	defer l.batches.mu.Unlock()
	err := l.wanted()
	if err == nil {
		l.item.b.writers++
	}
	return err
}

func (l *load) endWriting() {
	l.batches.mu.Lock()
	defer l.batches.mu.Unlock()
	b := l.item.b
	if b.writers--; b.state == failed { // the batch was dropped meanwhile
		l.batches.freeBuffer(b)
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
	switch {
	case err == nil && at != nil && at != b.slot: // the batch has left the GPU
		all.again(b, it.slot)
		return
	case err == nil:
		if all.flow.room.notShort(b); at != nil {
			b.onGPU[it.slot] = true
		}
	case causeOf(err) == ofFile && all.opts.OnError == Fail:
		if b.bad == nil || it.slot < b.badSlot {
			b.bad, b.badSlot = err, it.slot
		}
	default:
		all.fail(b, err)
		return
	}
	if b.finished++; b.finished == 1 && all.hung.count.Load() > 0 {
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
	all.hung.count.Add(-1)
	all.flow.moreSlots(len(all.flow.drawers)) // its batch hands out slots again
	all.takeWork.Broadcast()
}
