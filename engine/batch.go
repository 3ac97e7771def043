package engine

import (
	"cmp"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/batchfs/batchfs/layout"
	"github.com/batchfs/batchfs/pinned"
	"github.com/batchfs/batchfs/shard"
)

// A state is where a batch is on its way.
type state uint8

const (
	queued state = iota // wants a batch worker; what was decoded before it was put aside stays
	owned               // has one
	ready               // complete: its bytes never change again
	failed              // ended with an error
)

// A batch is one batch that exists: wanted, prefetched, open or kept. Fields are
// guarded by Engine.mu, but those that say otherwise.
type batch struct {
	key    Key
	form   layout.Form // what the buffer holds
	state  state
	stream *stream // who it was made for; nil when nobody reads there any more
	opened bool    // somebody opened it: it is no longer "ahead"

	refs    int           // Opens that wait for it, and files open on it
	waiting int           // Opens that wait
	asked   uint64        // when somebody first began to wait; 0: nobody does
	done    chan struct{} // closed when ready or failed
	err     error         // why it failed or is about to
	bad     error         // a bad sample, for which it fails when all others were tried too

	// Set by its batch worker, constant once laidOut.
	laidOut  bool
	slots    []shard.Slot
	valid    int
	items    int     // slots that are decoded; those after them repeat the last
	order    []int32 // in which they are handed out; nil: as they are
	spec     layout.Spec
	buf      *pinned.Buffer
	pixels   []byte
	outcomes []outcome // what became of each slot: written by whoever decodes it

	next     int  // items that were handed out
	inFlight int  // of these, being decoded
	finished int  // of these, done
	aside    bool // its owner shall put it aside
	denied   bool // somebody wanted it, and there was no memory to be had
	progress sync.Cond
	copies   map[layout.Form]*derived

	hits  atomic.Int64 // samples that came from the cache
	bytes atomic.Int64 // that were read from storage for it
}

// An outcome is what became of a slot.
type outcome struct {
	id            int64
	height, width int32      // of the valid pixels
	crop          [4]float64 // the part of the upright image that they show: y, x, height, width
	flip          bool
	status        status
	blank         bool // zeroed, or the repetition of a slot that is: nothing of the sample is shown
}

type status uint8

const (
	statusOK status = iota
	statusPadded
	statusReplaced
	statusZeroed
)

func (s status) String() string { return [...]string{"ok", "padded", "replaced", "zeroed"}[s] }

// batchWorker takes one batch after another and owns each until it is complete,
// has failed, or is put aside for one that somebody waits for.
func (e *Engine) batchWorker() {
	for b := e.take(); b != nil; b = e.take() {
		if !b.laidOut {
			if err := e.layOut(b); err != nil {
				e.finish(b, err)
				continue
			}
			b.laidOut = true
		}
		if e.attend(b) {
			e.finish(b, e.assemble(b))
		}
	}
}

// attend hands out the batch's slots and waits until all are decoded, or until no
// more shall be (true); or until the batch was put aside for one that somebody
// waits for (false). Either way no slot is being decoded when it returns.
func (e *Engine) attend(b *batch) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	b.aside = b.waiting == 0 && e.wantedInQueue() > e.idle
	e.making = append(e.making, b)
	e.itemWork.Broadcast()
	for b.inFlight > 0 || b.next < b.items && b.err == nil && !b.aside && !e.closed {
		b.progress.Wait()
	}
	e.making = without(e.making, b)
	if b.next == b.items || b.err != nil || e.closed {
		return true
	}
	b.state = queued
	e.queue = append(e.queue, b)
	return false
}

// layOut decides what is in the batch and allocates it.
func (e *Engine) layOut(b *batch) error {
	k := b.key
	b.slots, b.valid = e.plan.Batch(k.Shard, k.Epoch, k.Batch, make([]shard.Slot, 0, e.opts.BatchSize))
	b.items = b.valid
	if b.items == 0 && len(b.slots) > 0 {
		b.items = 1 // a batch of nothing but repetitions
	}
	b.outcomes = make([]outcome, len(b.slots))
	b.order = e.decodingOrder(b)
	if err := e.failsAgain(b); err != nil {
		return err
	}
	b.spec = e.spec(b.slots).In(b.form.OrderOf(e.opts.Layout))
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

// slotBytes are the pixels of one slot.
func (b *batch) slotBytes(i int) []byte {
	n := int(b.spec.SampleBytes())
	return b.pixels[i*n : (i+1)*n : (i+1)*n]
}

// assemble does what no single sample can: it repeats the last sample in padded
// slots and writes the header. Nobody decodes into the batch any more.
func (e *Engine) assemble(b *batch) error {
	e.mu.Lock()
	err := b.err
	if err == nil && b.next < b.items {
		err = ErrClosed
	}
	if err == nil {
		err = b.bad
	}
	e.mu.Unlock()
	if err != nil {
		return err
	}
	for i := b.items; i < len(b.slots); i++ {
		copy(b.slotBytes(i), b.slotBytes(b.items-1))
		b.outcomes[i] = b.outcomes[b.items-1]
	}
	for i := b.valid; i < len(b.slots); i++ {
		b.outcomes[i].status = statusPadded
	}
	layout.PutHeader(b.form, b.spec, b.buf.Bytes(), e.meta(b.outcomes, b.valid))
	return nil
}

// meta is what a file that describes itself says about its samples.
func (e *Engine) meta(outcomes []outcome, valid int) layout.Meta {
	n := len(outcomes)
	m := layout.Meta{Valid: valid, Labels: make([]int64, n), IDs: make([]int64, n), Sizes: make([][2]int32, n)}
	for i, o := range outcomes {
		m.Labels[i], m.IDs[i], m.Sizes[i] = e.label(o), o.id, [2]int32{o.height, o.width}
	}
	return m
}

func (e *Engine) label(o outcome) int64 {
	if o.blank {
		return -1
	}
	return int64(e.ds.Label(int(o.id)))
}

// finish ends a batch and wakes those who wait for it.
func (e *Engine) finish(b *batch, err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if b.err == errDropped {
		e.giving--
	}
	if b.err == nil {
		b.err = err
	}
	if errors.Is(b.err, ErrNoMemory) && b.refs > 0 && !b.denied {
		// It was refused memory while it was only prefetched; somebody wants it by now,
		// for whom others give way.
		b.err, b.bad, b.state, b.next, b.finished = nil, nil, queued, 0, 0
		b.hits.Store(0)
		b.bytes.Store(0)
		e.enqueue(b)
		return
	}
	if b.err == nil {
		b.state = ready
		e.meter.batch(b, b.valid == e.opts.BatchSize)
		e.settle(b)
	} else {
		b.state = failed
		if b.bad != nil && b.err == b.bad {
			if len(e.tried) >= maxErrorLines {
				clear(e.tried)
			}
			e.tried[b.key] = true
		}
		e.forget(b)
	}
	close(b.done)
}

// drop makes a batch that nobody holds give way. Its memory comes back at once, or
// from its owner when the samples that are being decoded into it are done.
func (e *Engine) drop(b *batch) {
	if b.refs != 0 {
		panic("engine: a batch that somebody holds is dropped")
	}
	owner := b.state == owned
	e.queue = without(e.queue, b)
	if !owner {
		e.forget(b)
		return
	}
	delete(e.table, b.key)
	b.leaveStream()
	b.err = errDropped
	b.progress.Signal()
	e.giving++
	e.memory.Broadcast() // a worker of this batch may wait for memory itself
}

// forget takes a batch out of everything and frees its memory. Nobody holds it or
// decodes into it.
func (e *Engine) forget(b *batch) {
	if e.table[b.key] == b {
		delete(e.table, b.key)
	}
	b.leaveStream()
	if b.buf != nil {
		b.buf.Release()
		b.buf, b.pixels = nil, nil
	}
	e.memory.Broadcast()
}

// itemDone notes that an item was decoded, or why it could not be. For a bad sample
// the batch fails only when all of them were tried, so that each bad one is reported:
// who has to mend them shall not need an open for each.
func (e *Engine) itemDone(b *batch, err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	switch {
	case e.opts.OnError == Fail && isBad(err) && !ofStorage(err): // which may take its time to fail
		b.bad = cmp.Or(b.bad, err)
	case err != nil && b.err == nil:
		b.err = err
	}
	b.finished++
	if b.items-b.finished == cap(e.processors) {
		e.takeWork.Broadcast() // it is no longer too early for the next batch
	}
	if b.inFlight--; b.inFlight == 0 {
		b.progress.Signal()
	}
}

func without[T comparable](list []T, x T) []T {
	for i := range list {
		if list[i] == x {
			return append(list[:i], list[i+1:]...)
		}
	}
	return list
}

// allocate gets memory for a batch, or for a copy of one. If somebody wants it
// now, kept and prefetched batches give way.
func (e *Engine) allocate(b *batch, size int64) (*pinned.Buffer, error) {
	for {
		before := e.ledger.returns()
		buf, err := e.pool.Get(size)
		if err == nil {
			e.sayIfUnlocked()
			return buf, nil
		}
		if errors.Is(err, pinned.ErrKernel) {
			return nil, fmt.Errorf("%s: %w", b.key, e.refusedByKernel(b, err))
		}
		if !errors.Is(err, pinned.ErrNoMemory) {
			return nil, err
		}
		if !e.makeRoom(b, size, before) {
			return nil, fmt.Errorf("%w: %s takes %d bytes", ErrNoMemory, b.key, size)
		}
	}
}
