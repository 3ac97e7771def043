package engine

import (
	"time"

	"github.com/batchfs/batchfs/internal/catalog"
	"github.com/batchfs/batchfs/internal/fault"
	"github.com/batchfs/batchfs/internal/gpu"
	"github.com/batchfs/batchfs/shard"
)

// An item is a part of the sample of a slot, handed to a load. The items of each part are numbered
// one after the other, by slot. Most batches have one part. A batch has several if its form shows
// several. It also has them if a bad part makes the whole sample bad: parts that the batch does not
// show are then made and thrown away, unless they are known to be good.
type item struct {
	batches *batches
	batch   *batch
	n       int32
	slot    int
	attempt
}

// An attempt is one way to make an item. Another one may follow it: with the whole file, if a part
// of it was not enough; with another sample, if this one is bad; on a processor, if the GPU does
// not make it; or with more memory. Each begins when the one before has ended, and goes the same
// way, from a load to a drawer.
type attempt struct {
	id    int64        // the sample: the slot's own, or one that replaces it
	part  catalog.Part // the part of it
	whole bool         // all of the file is read
	again bool         // it was read before, and given up
	asks  amount       // what it takes, if there was too little memory for it
	gpu   *gpuWorker   // has it in a portion, for which JPEGs are read whole; nil: no worker has it

	replaces *replacement // the search that the sample was found in; nil: it is the slot's own
}

func (b *batch) partOf(n int32) catalog.Part { return b.parts[int(n)/b.items] }

// partsOf returns the parts that are made of each sample of a batch; the batch shows the first.
func (c Budget) partsOf(p catalog.Part) []catalog.Part {
	o, list := &c.Catalog.Options, []catalog.Part{p.First()}
	either := o.OnError != Fail
	if !p.HasImages() && either {
		list = append(list, catalog.Images)
	}
	if o.Masks != nil && p != catalog.Masks && (p.HasMasks() || either) {
		list = append(list, catalog.Masks)
	}
	for i := range o.Arrays {
		if p.HasImages() && p.HasArray(i) {
			list = append(list, catalog.ArrayPart(i))
		}
	}
	return list
}

// inParts returns the items of a batch whose slots are handed out in an order.
func (b *batch) inParts(order []int32) (all []int32) {
	for part := range b.parts {
		for _, slot := range order {
			all = append(all, int32(part*b.items)+slot)
		}
	}
	return all
}

// shows reports whether the batch shows a part of its samples.
func (it *item) shows(p catalog.Part) bool {
	of := it.batch.key.Part
	return p == of || of == catalog.Both || of == catalog.WithArrays
}

// isKnownGood reports whether the item's part of its sample, which the batch does not show, is
// known to be good.
func (it *item) isKnownGood() bool {
	if it.shows(it.part) || !it.batches.bad.knownGood.has(it.part, it.id, it.source().Epoch) {
		return false
	}
	of, row := it.batches.bad.where(it.part, it.id)
	return of.sameFile(row)
}

// source returns the slot's sample, and the epoch in which it is read.
func (it *item) source() shard.Slot { return it.batch.slots[it.slot] }

// isCurrent reports whether the result of an item is still wanted.
func (it *item) isCurrent() bool { return it.batch.state < ready }

// claim hands out the next item of a batch.
func (l *load) claim(b *batch) {
	n := b.todo[0]
	slot := int(n) % b.items
	l.item = item{l.batches, b, n, slot, attempt{id: b.slots[slot].ID, part: b.partOf(n)}}
	b.inFlight++
	if b.todo = b.todo[1:]; len(b.todo) == 0 {
		l.batches.takeWork.Broadcast() // the next batch may start now
	}
}

// wanted returns nil while the sample may be wanted. The lock is held.
func (it *item) wanted() error {
	switch {
	case it.batches.closed:
		return ErrClosed
	case !it.isCurrent():
		return errDropped
	}
	return nil
}

// stillWanted is wanted for callers that do not hold the lock.
func (it *item) stillWanted() error {
	it.batches.mu.Lock()
	defer it.batches.mu.Unlock()
	return it.wanted()
}

// beginWriting requests permission to write into the slot. On success the batch's memory stays
// until endWriting.
func (it *item) beginWriting() error {
	it.batches.mu.Lock()
	defer it.batches.mu.Unlock()
	err := it.wanted()
	if err == nil {
		it.batch.writers++
	}
	return err
}

func (it *item) endWriting() {
	it.batches.mu.Lock()
	defer it.batches.mu.Unlock()
	if it.batch.writers--; it.batch.state == failed { // the batch was dropped in the meantime
		it.batch.free(it.batches.memory)
	}
}

// itemDone notes that an item was made, or why it could not be. at is where on the GPU its pixels
// are, nil if they are in host memory. If a sample is bad, the batch fails only once all samples
// were tried, so that one open reports every bad file.
func (all *batches) itemDone(it item, at *gpu.Slot, err error) {
	all.mu.Lock()
	defer all.mu.Unlock()
	if !it.isCurrent() {
		return
	}
	b := it.batch
	b.inFlight--
	switch {
	case err == nil && at != nil && at != b.slot: // the batch has left the GPU
		all.handOutAgain(b, it.n)
		return
	case err == nil:
		if all.flow.room.notShort(b); at != nil {
			b.onGPU[it.slot] = true
		}
	case fault.Of(err) == fault.File && all.opts.OnError == Fail:
		if at := it.slot*len(b.parts) + int(it.n)/b.items; b.bad == nil || at < b.badAt {
			b.bad, b.badAt = err, at
		}
	default:
		all.fail(b, err)
		return
	}
	if b.finished++; b.finished == 1 && all.flow.hungReads.count.Load() > 0 {
		all.flow.moreSlots(len(b.todo)) // its storage answers
	}
	all.completeIfDone(b)
}

// handOutAgain hands an item out once more.
func (all *batches) handOutAgain(b *batch, n int32) {
	b.todo = append(b.todo, n)
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
	l.stalled, all.flow.hungReads.ended = false, time.Now()
	all.flow.hungReads.count.Add(-1)
	all.flow.resume() // its batch hands out slots again
	all.flow.room.some.Signal()
}
