package engine

import (
	"slices"
	"sync"
	"time"
)

// room is where items wait for memory. An attempt that is refused some ends, and gives up what it
// has. The item waits until it is admitted with all that it takes; then another load carries it.
// Items that take no more than the room that is left for one are admitted in any order, and sooner
// or later, as others end. Of the larger ones, only that of the most important batch is admitted.
// While it waits, no less important batch begins. Those that have begun are completed, and give
// back the memory that it waits for. If there is not enough even then, a batch that was only made
// ahead is given up, and the others that wait give way to the most important one.
//
// The lock of the batches guards it.
type room struct {
	*batches

	waiting []item
	trial   *load     // tries again to have the GPU make a sample, for which memory is taken only then; nil: none does
	some    sync.Cond // there may be some memory
}

// An amount is what an item takes, in bytes.
type amount struct {
	input   int64  // encoded
	drawing int64  // while its pixels are made, beside its batch; 0: not known yet
	onGPU   bool   // there was too little memory to make it on the GPU
	staging int64  // of a buffer for that, which the memory limit had no room for; 0: it was the GPU's own memory
	refused uint64 // ledger.returns when it began to wait
}

// add ends an attempt that was refused memory, and has its item wait. It returns an error, and does
// nothing, if there can never be so much.
func (r *room) add(l *load) error {
	if err := r.memory.fits(l.item.batch, l.item.asks.input+l.item.asks.staging, l.item.asks.drawing); err != nil {
		return err
	}
	l.input.giveBack()
	r.mu.Lock()
	defer r.mu.Unlock()
	it := l.item
	it.asks.refused = r.memory.ledger.returns()
	if r.trial == l {
		r.trial = nil
	}
	r.flow.addSpare(l)
	if it.wanted() != nil {
		return nil
	}
	if it.batch.short.IsZero() {
		it.batch.short = time.Now()
	}
	r.waiting = append(r.waiting, it)
	r.memory.ledger.await()
	r.some.Signal()
	return nil
}

// drop forgets the items of a batch that has ended.
func (r *room) drop(b *batch) {
	n := len(r.waiting)
	r.waiting = slices.DeleteFunc(r.waiting, func(it item) bool { return it.batch == b })
	if len(r.waiting) == n {
		return
	}
	if r.some.Signal(); len(r.waiting) == 0 {
		r.flow.resume()
	}
}

// run admits items until the engine closes.
func (r *room) run() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for !r.closed {
		if !r.admitNext() && !r.closed { // it may have closed in the meantime
			r.some.Wait()
		}
	}
}

// admitNext admits an item, or frees some memory for the first one. It returns false if neither was
// possible.
func (r *room) admitNext() bool {
	ledger := r.memory.ledger
	before, first := ledger.returns(), r.schedule.firstWaiting()
	if first < 0 {
		return false
	}
	if r.admitAny(first, false) {
		return true
	}
	it := r.waiting[first]
	n := it.asks.input + it.asks.drawing + it.asks.staging
	if n == 0 {
		return false
	}
	r.mu.Unlock()
	some := r.memory.reclaim(it.batch, n, before)
	r.mu.Lock()
	if some || ledger.returns() != before { // memory may have come back in the meantime
		return true
	}
	if first = r.schedule.firstWaiting(); first < 0 || !r.flow.isIdle() {
		return false
	}
	r.flow.trim() // so that there is room for what is admitted without asking the ledger
	if r.admitAny(first, true) {
		return true
	}
	b := r.waiting[first].batch
	if b.refs == 0 { // reading ahead takes only free memory
		r.discard(b)
		return true
	}
	return r.giveWayTo(b)
}

// giveWayTo has the least important batch that waits give up its memory, for the first one, and
// begin anew, in its turn. Each of them may hold what the other one waits for, as it was not known
// how much their samples take: some replace bad ones, or need a GPU's staging buffer.
func (r *room) giveWayTo(first *batch) bool {
	last := first
	for _, it := range r.waiting {
		if r.schedule.goesBefore(last, it.batch) {
			last = it.batch
		}
	}
	if last == first {
		return false
	}
	r.fail(last, errGone)
	return true
}

// admitAny admits the first item, or one that takes no more than the room that is left for one. Of
// those that were to be made on the GPU, it admits only the first, and one at a time: their
// attempts, each of which gives back memory, would have one another tried again and again.
func (r *room) admitAny(first int, only bool) bool {
	if r.admit(first, only) {
		return true
	}
	ledger := r.memory.ledger
	for i, it := range r.waiting {
		if !it.asks.onGPU && it.asks.input <= ledger.load && it.asks.drawing <= ledger.drawing && r.admit(i, only) {
			return true
		}
	}
	return false
}

// admit gives a waiting item what it takes, if there is enough, and has a load carry it.
func (r *room) admit(i int, only bool) bool {
	it := r.waiting[i]
	if it.asks.onGPU && (r.onTrial() != nil || it.asks.refused == r.memory.ledger.returns()) || !r.memory.ledger.admitLoad(it.asks.input, it.asks.drawing, only) {
		return false
	}
	r.waiting = slices.Delete(r.waiting, i, i+1)
	r.notShort(it.batch)
	l := r.flow.takeSpare()
	l.input.giveBack()
	l.item, l.input.charged = it, it.asks.input
	if it.asks.onGPU {
		r.trial = l
	}
	r.isLarge(l, it.asks.drawing)
	if r.wait.Go(l.tryAgain); !r.hasWaiting(it.batch) {
		r.flow.resume()
	}
	return true
}

// onTrial is the batch of the sample that is on trial; nil: there is none, or its read hangs, or it
// is no longer wanted. No less important batch takes the memory that it needs.
func (r *room) onTrial() *batch {
	if r.trial == nil || !r.trial.item.isCurrent() || r.flow.hungReads.hangs(r.trial.item.batch) {
		return nil
	}
	return r.trial.item.batch
}

// notShort notes that a batch has got some memory, or continues without it.
func (r *room) notShort(b *batch) {
	if b.short.IsZero() {
		return
	}
	b.short = time.Time{}
	if r.hasWaiting(b) {
		b.short = time.Now()
	}
}

// hasWaiting reports whether an item of a batch waits for memory.
func (r *room) hasWaiting(b *batch) bool {
	return slices.ContainsFunc(r.waiting, func(it item) bool { return it.batch == b })
}

// makeReady leaves room for drawing the sample that a load has read. The error is errNoRoom if
// there is too little.
func (r *room) makeReady(l *load) error {
	n, ledger := l.sample.needs, r.memory.ledger
	if err := r.memory.fits(l.item.batch, l.input.asked, n); err != nil || n <= max(ledger.drawing, l.room) {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if !ledger.admitLoad(0, n, false) {
		l.item.asks = amount{input: l.input.asked, drawing: n}
		return errNoRoom
	}
	r.isLarge(l, n)
	return nil
}

// isLarge notes that room is left for drawing the sample of a load.
func (r *room) isLarge(l *load, drawing int64) {
	if drawing > r.memory.ledger.drawing {
		l.room = drawing
	}
}

// notLarge notes that this room is not needed any more.
func (r *room) notLarge(l *load) {
	if l.room == 0 {
		return
	}
	l.room = 0
	most := int64(0)
	for _, other := range r.flow.hungReads.loads {
		most = max(most, other.room)
	}
	r.memory.ledger.setReady(most)
}
