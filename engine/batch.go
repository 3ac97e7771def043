package engine

import (
	"cmp"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/batchfs/batchfs/layout"
	"github.com/batchfs/batchfs/pinned"
	"github.com/batchfs/batchfs/shard"
)

// A state is the stage that a batch has reached.
type state uint8

const (
	queued   state = iota // needs a batch worker, or memory; its slots may have been laid out before
	laying                // a batch worker is laying it out
	making                // its slots are being handed out to item workers
	complete              // every slot was tried; it needs a batch worker to assemble it
	ready                 // its bytes never change again
	failed                // ended with an error
)

// A batch is a batch that exists: wanted, prefetched, open or kept. Engine.mu guards its
// fields, except where noted.
type batch struct {
	key    Key
	form   layout.Form // format of the buffer
	state  state
	stream *stream // the stream it was made for; nil once that has ended
	opened bool    // it was opened, so it no longer counts as "ahead"

	standIns bool // it contains substitutes for samples that could not be read

	refs     int           // Opens that wait for it, plus files open on it
	waiting  int           // Opens that wait for it
	asked    uint64        // Engine.opens when an Open first began to wait; 0: none has
	openedAs uint64        // Engine.opens when it was last opened
	done     chan struct{} // closed when ready or failed
	err      error         // why it failed
	bad      error         // a bad sample; the batch fails with it once all other samples were tried

	// State of a batch that the memory limit had no room for.
	refused   bool      // it waits until memory comes back
	refusedAt uint64    // Ledger.returns at the last refusal
	short     time.Time // start of the current run of refusals without progress; zero: none

	// Set by the first layout, constant afterwards.
	slots   []shard.Slot
	valid   int
	items   int     // slots to decode; the slots after them repeat the last one
	order   []int32 // the order in which slots are handed out; nil: slot order
	spec    layout.Spec
	samples []Sample // what each slot shows, written by its item worker

	// Constant while it is laid out.
	laidOut bool
	buf     *pinned.Buffer
	pixels  []byte

	// Slots in flight. A turn ends when the batch is dropped or gives its memory back.
	// Whatever is still being fetched for an earlier turn is discarded, and nothing waits
	// for it.
	turn     int
	next     int     // slots handed out so far
	again    []int32 // slots returned because there was no scratch memory
	inFlight int     // slots handed out that are neither done nor returned
	finished int     // slots done
	writers  int     // users of the buffer: batch workers, and item workers writing into it
	stalled  int     // slots in flight whose storage does not answer
	copies   map[layout.Form]*derived

	hits  atomic.Int64 // samples served from the cache
	bytes atomic.Int64 // bytes read from storage for this batch
}

// batchWorker lays batches out and assembles those whose slots are done. It does not wait
// in between, so a batch whose storage does not answer delays no other.
func (e *Engine) batchWorker() {
	for t, ok := e.take(); ok; t, ok = e.take() {
		b := t.b
		if t.assemble {
			e.finish(b, guarded(func() error { return e.assemble(b) }))
		} else {
			e.publish(b, t.turn, guarded(func() error { return e.layOut(b) }))
		}
	}
}

// layOut decides what is in the batch and allocates it.
func (e *Engine) layOut(b *batch) error {
	if b.laidOut {
		return nil // it only waited for scratch memory
	}
	if b.slots == nil {
		e.fix(b)
	}
	if err := e.catalog.shapeKnown(b.slots); err != nil {
		return err
	}
	if err := b.spec.Err(); err != nil {
		return fmt.Errorf("%w: %w", ErrTooBig, err)
	}
	buf, err := e.allocate(b, layout.Size(b.form, b.spec))
	if err != nil {
		return err
	}
	b.buf = buf
	start := layout.DataOffset(b.form, b.spec)
	b.pixels = buf.Bytes()[start : start+b.spec.Bytes()]
	return nil
}

// fix determines the samples of the batch and the shape that follows from them.
func (e *Engine) fix(b *batch) {
	k := b.key
	b.slots, b.valid = e.catalog.Plan.Batch(k.Shard, k.Epoch, k.Batch, make([]shard.Slot, 0, e.opts.BatchSize))
	b.items = b.valid
	if b.items == 0 && len(b.slots) > 0 {
		b.items = 1 // the batch consists of repetitions only
	}
	b.samples = make([]Sample, len(b.slots))
	b.order = e.decodingOrder(b)
	b.spec = e.catalog.specOf(b.slots).In(b.form.OrderOf(e.opts.Layout))
}

// publish hands a laid-out batch to the item workers, or ends it if err is not nil.
func (e *Engine) publish(b *batch, turn int, err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.layingOut--
	b.writers--
	switch {
	case b.turn != turn: // dropped meanwhile
		e.freeBuffer(b)
	case err == nil:
		if !b.laidOut {
			b.laidOut, b.short = true, time.Time{}
		}
		b.state, b.refused = making, false
		e.making = append(e.making, b)
		e.itemWork.Broadcast()
		e.takeWork.Broadcast()
		e.completeIfDone(b)
	case causeOf(err) == ofTurn:
		e.waitForMemory(b)
	default:
		e.end(b, err)
	}
}

// completeIfDone passes a batch on to a batch worker once all of its slots were tried.
func (e *Engine) completeIfDone(b *batch) {
	if b.state == making && b.finished == b.items {
		e.making = without(e.making, b)
		b.state = complete
		e.completed = append(e.completed, b)
		e.takeWork.Broadcast()
	}
}

// slotBytes are the pixels of one slot.
func (b *batch) slotBytes(i int) []byte {
	n := int(b.spec.SampleBytes())
	return b.pixels[i*n : (i+1)*n : (i+1)*n]
}

// assemble repeats the last sample in padded slots and writes the header. No worker decodes
// into the batch any more.
func (e *Engine) assemble(b *batch) error {
	e.mu.Lock()
	err := b.bad
	e.mu.Unlock()
	if err != nil {
		return err
	}
	for i := b.items; i < len(b.slots); i++ {
		copy(b.slotBytes(i), b.slotBytes(b.items-1))
		b.samples[i] = b.samples[b.items-1]
	}
	for i := b.valid; i < len(b.slots); i++ {
		b.samples[i].Status = StatusPadded
	}
	layout.PutHeader(b.form, b.spec, b.buf.Bytes(), b.description().Meta())
	return nil
}

// description describes a complete batch.
func (b *batch) description() Description {
	return Description{Key: b.key, Spec: b.spec, Valid: b.valid, Samples: b.samples}
}

// finish ends the assembly of a batch. If the batch was dropped meanwhile, only its memory
// is freed.
func (e *Engine) finish(b *batch, err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	b.writers--
	switch {
	case b.state != complete:
		e.freeBuffer(b)
	case err != nil:
		e.end(b, err)
	default:
		b.state = ready
		b.standIns = slices.ContainsFunc(b.samples[:b.items], func(s Sample) bool { return s.Status != StatusOK })
		e.meter.batch(b, b.valid == e.opts.BatchSize)
		e.settle(b)
		close(b.done)
	}
}

// end makes a batch fail, wakes its waiting Opens, and forgets it, so that the next Open
// tries again.
func (e *Engine) end(b *batch, err error) {
	switch causeOf(err) {
	case ofFile:
		if e.opts.OnError != Fail {
			break // the replacement may be repaired
		}
		if len(e.tried) >= maxBadSamples {
			clear(e.tried)
		}
		e.tried[b.key] = true
	case ofMachine, ofMemory:
		err = machineError(err)
		if b.waiting > 0 {
			e.warnMachine(b.key, err)
		}
	case ofShape:
		e.log.Warn("a batch cannot be made", "batch", b.key.String(), "reason", err)
	}
	b.err, b.state = err, failed
	e.forget(b)
	close(b.done)
}

// drop ends a batch that nothing holds. Its memory is freed at once, or by the item workers
// that are writing into it.
func (e *Engine) drop(b *batch) {
	if b.refs != 0 {
		panic("engine: a batch that somebody holds is dropped")
	}
	b.err, b.state = errDropped, failed
	e.forget(b)
}

// restart takes the memory of a batch that an Open waits for and has it made again later.
// No worker may be writing into it.
func (e *Engine) restart(b *batch) {
	e.unlist(b)
	b.endTurn()
	e.freeBuffer(b)
	b.laidOut, b.bad = false, nil
	b.hits.Store(0)
	b.bytes.Store(0)
	e.waitForMemory(b)
}

// endTurn disowns everything in flight for the batch.
func (b *batch) endTurn() {
	b.turn++
	b.next, b.inFlight, b.finished, b.stalled, b.again = 0, 0, 0, 0, nil
}

// forget removes a batch from all tables and lists and frees its memory.
func (e *Engine) forget(b *batch) {
	e.unlist(b)
	if e.table[b.key] == b {
		delete(e.table, b.key)
	}
	b.leaveStream()
	b.endTurn()
	e.freeBuffer(b)
}

// unlist removes a batch from the lists of batches in the making.
func (e *Engine) unlist(b *batch) {
	e.queue = without(e.queue, b)
	e.making = without(e.making, b)
	e.completed = without(e.completed, b)
	e.takeWork.Broadcast() // there is room for the next one
}

// freeBuffer frees a batch's memory. While the batch is being laid out or written into, it
// does nothing: the last writer frees it.
func (e *Engine) freeBuffer(b *batch) {
	if b.writers > 0 || b.buf == nil {
		return
	}
	b.buf.Release()
	b.buf, b.pixels = nil, nil
	e.released++
	e.ledger.cameBack()
}

// An item is a slot handed to an item worker, for one turn of its batch.
type item struct {
	b    *batch
	slot int
	turn int
}

// current reports whether the result of an item is still wanted.
func (it item) current() bool { return it.b.turn == it.turn }

// beginWriting requests permission to write into the item's slot. On success the batch's
// memory stays until endWriting.
func (e *Engine) beginWriting(it item) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return ErrClosed
	}
	if !it.current() {
		return errDropped
	}
	it.b.writers++
	return nil
}

func (e *Engine) endWriting(b *batch) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if b.writers--; b.state == failed { // the batch was dropped meanwhile
		e.freeBuffer(b)
	}
}

// itemDone notes that an item was decoded, or why it could not be. If a sample is bad, the
// batch fails only once all samples were tried, so that one open reports every bad file.
func (e *Engine) itemDone(it item, err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !it.current() {
		return
	}
	b := it.b
	b.inFlight--
	defer e.parkIfRefused(b)
	switch {
	case err == nil:
		b.short = time.Time{}
	case causeOf(err) == ofTurn:
		b.again = append(b.again, int32(it.slot))
		b.refused = true
		return
	case causeOf(err) == ofFile && e.opts.OnError == Fail:
		b.bad = cmp.Or(b.bad, err)
	default:
		e.end(b, err)
		return
	}
	if b.finished++; b.finished == 1 && e.stalled.Load() > 0 {
		e.itemWork.Broadcast() // its storage answers
	}
	if b.items-b.finished == cap(e.processors) {
		e.takeWork.Broadcast() // the next batch may start now
	}
	e.completeIfDone(b)
}

// newBatch enters a batch into the table.
func (e *Engine) newBatch(k Key, form layout.Form) *batch {
	b := &batch{key: k, form: form, done: make(chan struct{})}
	e.table[k] = b
	return b
}

// enqueue makes a batch visible to the batch workers.
func (e *Engine) enqueue(b *batch) {
	b.state = queued
	e.queue = append(e.queue, b)
	e.takeWork.Broadcast()
}

func without[T comparable](list []T, x T) []T {
	for i := range list {
		if list[i] == x {
			return append(list[:i], list[i+1:]...)
		}
	}
	return list
}
