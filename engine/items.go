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
func (all *batches) handBack(l *load) {
	l.giveBack()
	all.mu.Lock()
	defer all.mu.Unlock()
	all.flow.room.notLarge(l)
	if b := l.item.b; l.item.isCurrent() {
		b.inFlight--
		all.again(b, l.item.slot)
	}
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

// beginDrawing is beginWriting for several loads. It returns those that may be drawn.
func (all *batches) beginDrawing(hands, able []*load) []*load {
	all.mu.Lock()
	defer all.mu.Unlock()
	for _, l := range hands {
		if l.sample.drawn = all.wants(l.item); l.sample.drawn == nil {
			l.item.b.writers++
			able = append(able, l)
		}
	}
	return able
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
		all.moreSlots(len(b.todo)) // its storage answers
	}
	all.completeIfDone(b)
}

// again hands a slot out once more.
func (all *batches) again(b *batch, slot int) {
	b.todo = append(b.todo, int32(slot))
	all.moreSlots(1)
}

// storageAnswered notes that a load's read has returned.
func (all *batches) storageAnswered(l *load) {
	all.mu.Lock()
	defer all.mu.Unlock()
	if !l.stalled {
		return
	}
	l.stalled = false
	all.hung.count.Add(-1)
	all.moreSlots(len(all.flow.drawers)) // its batch hands out slots again
	all.takeWork.Broadcast()
}
