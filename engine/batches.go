package engine

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/batchfs/batchfs/cache"
	"github.com/batchfs/batchfs/cache/pages"
	"github.com/batchfs/batchfs/dataset"
	"github.com/batchfs/batchfs/dataset/sample"
	"github.com/batchfs/batchfs/decode/pixels"
	"github.com/batchfs/batchfs/layout"
	"github.com/batchfs/batchfs/pinned"
)

// batches makes batches and holds those that exist. Its lock also guards its streams,
// schedule, flow and hung. While it is held, no file is read, no pixel is touched and no batch
// memory is allocated.
type batches struct {
	catalog   *Catalog
	ds        *dataset.Dataset // the catalog's
	opts      *Options         // the catalog's
	log       *slog.Logger
	memory    *memory
	bad       *badSamples
	meter     *meter
	pages     *pages.Cache // nil: there are no compressed pages
	cache     *cache.Cache // nil: no cache
	keeper    *keeper      // the plan of both; nil: none
	local     *local       // what is kept on a local disk; nil: nothing that is planned
	converter *layout.Converter
	inputs    *pinned.Account // encoded samples
	rest      *pinned.Account // other worker buffers
	newLoader func(o pixels.Options, e *sample.Entries) loader

	mu           sync.Mutex
	table        map[Key]*batch // every batch that exists
	tried        map[Key]bool   // batches that failed when each of their samples had been tried
	streams      *streams
	schedule     *schedule
	flow         *flow
	hung         *hung
	opens        uint64 // counts Opens
	closed       bool
	deviceLost   bool            // and that was reported
	takeWork     sync.Cond       // a batch may be waiting for a batch worker
	ctx          context.Context // of reads; it ends when the engine closes
	cancel       context.CancelFunc
	wait         sync.WaitGroup
	asking       []*batch      // that the GPU's driver is at work for
	deviceWait   time.Duration // how long host forms wait for it
	unregistered sync.Once     // that the GPU does not copy from batch memory by itself
	share        *share        // nil: the GPU decodes nothing
	gpuUse       gpuUse
}

func (all *batches) start() {
	for _, d := range all.flow.drawers {
		if err := d.presize(all.opts.Hints.Scratch); err != nil {
			all.log.Warn("scratch memory could not be allocated beforehand", "reason", err)
		}
	}
	all.mu.Lock()
	defer all.mu.Unlock()
	all.flow.presizeLoads()
	for _, w := range all.gpuWorkers() {
		all.wait.Go(w.run)
	}
	for _, d := range all.flow.drawers {
		all.wait.Go(d.run)
	}
	for range min(all.opts.BatchWorkers, len(all.flow.drawers)) { // what they do takes a processor
		all.wait.Go(func() { all.batchWorker(toMake) })
		all.wait.Go(func() { all.batchWorker(toCopy) })
	}
	if all.opts.Device != nil { // one, so that no batch takes room while an earlier one is refused it
		for _, t := range []task{toSend, toSwap} {
			all.wait.Go(func() {
				all.nearDevice()
				all.batchWorker(t)
			})
		}
	}
	all.wait.Go(all.watch)
}

// beginClosing makes all workers and waiting Opens end. It returns false the second time.
func (all *batches) beginClosing() bool {
	all.mu.Lock()
	defer all.mu.Unlock()
	if all.closed {
		return false
	}
	all.closed = true
	all.cancel()
	all.flow.work.Broadcast()
	all.flow.gpuWork.Broadcast()
	all.takeWork.Broadcast()
	all.flow.room.some.Broadcast()
	return true
}

// batchWorker lays batches out and assembles them once their slots are done. It does not wait
// in between, so a batch whose storage does not answer delays no other.
func (all *batches) batchWorker(t task) {
	for {
		switch b, isDone := all.takeTask(t); {
		case b == nil:
			return
		case isDone:
			all.finishAssembly(b, all.assemble(b))
		default:
			all.finishLayout(b, all.layOut(b))
		}
	}
}

// takeTask waits for a batch to lay out, or to assemble if all of its slots are done. It
// returns nil when the engine closes.
func (all *batches) takeTask(t task) (b *batch, isDone bool) {
	all.mu.Lock()
	defer all.mu.Unlock()
	s := all.schedule
	for !all.closed {
		if i := slices.IndexFunc(s.completed, func(b *batch) bool { return b.task() == t }); i >= 0 {
			b := s.completed[i]
			s.completed = slices.Delete(s.completed, i, i+1)
			s.atWork++
			b.beginWork()
			return b, true
		}
		if b := s.nextToLayOut(t); b != nil {
			s.queue = without(s.queue, b)
			s.atWork++
			b.writers++
			s.layingOut = append(s.layingOut, b)
			return b, false
		}
		all.takeWork.Wait()
	}
	return nil, false
}

// layOut decides what is in the batch and allocates it.
func (all *batches) layOut(b *batch) (err error) {
	defer catch(&err)
	if b.task() == toSend {
		return all.findSlot(b)
	}
	if b.source != nil && !all.fitsBeside(b) {
		return errNoRoom
	}
	if b.slots == nil && b.source == nil {
		b.assignSamples(all.catalog)
		b.order = all.decodingOrder(b)
	}
	if err := all.catalog.shapeKnown(b.slots); err != nil {
		return err
	}
	if err := b.spec.Err(); err != nil {
		return fmt.Errorf("%w: %w", ErrTooBig, err)
	}
	if b.large > 0 && !all.mayBegin(b) {
		return errLater
	}
	buf, err := all.memory.buffer(b, layout.Size(b.form, b.spec))
	if err != nil {
		return err
	}
	if b.buf = buf; b.form.Tensor() {
		start := layout.DataOffset(b.form, b.spec)
		b.pixels = buf.Bytes()[start : start+b.spec.Bytes()]
	}
	if b.slot = all.slotAhead(b); b.slot != nil {
		b.onGPU = make([]bool, len(b.slots))
	}
	return nil
}

// finishLayout has the slots of a laid-out batch filled, or ends it if err is not nil.
func (all *batches) finishLayout(b *batch, err error) {
	all.mu.Lock()
	defer all.mu.Unlock()
	all.schedule.layingOut = without(all.schedule.layingOut, b)
	all.schedule.atWork--
	b.writers--
	all.takeWork.Broadcast() // there may be room for the next one, or Quiet has waited for this
	switch {
	case b.state == failed: // dropped meanwhile
		all.freeBuffer(b)
	case err == nil:
		b.todo, b.state, b.short = b.order, making, time.Time{}
		all.schedule.making = append(all.schedule.making, b)
		b.holdSource()
		all.flow.moreSlots(len(b.todo))
		all.completeIfDone(b)
	case err == errLater:
		all.enqueue(b)
	case errors.Is(err, errNoRoom):
		all.waitForMemory(b)
	default:
		all.fail(b, err)
	}
}

// fitsBeside reports whether there can be room for a copy beside its source. If there never is, that goes as soon as nobody
// holds it, and the batch is made in the form that was asked for.
func (all *batches) fitsBeside(c *batch) bool {
	all.mu.Lock()
	defer all.mu.Unlock()
	source := c.source
	if source.buf == nil || layout.Size(c.form, c.spec)+int64(len(source.buf.Bytes())) <= all.memory.forBatches() || all.catalog.madeIn(c.form) != c.form {
		return true
	}
	if c.refusedAt = all.memory.ledger.returns(); source.refs == 0 && source.state == ready {
		all.discard(source)
	}
	return false
}

func (all *batches) mayBegin(b *batch) bool {
	all.mu.Lock()
	defer all.mu.Unlock()
	b.begun = all.schedule.mayBegin(b)
	return b.begun
}

// beginWork keeps the memory of a batch, and of what it is a copy of, until endWork.
func (b *batch) beginWork() {
	for ; b != nil; b = b.source {
		b.writers++
	}
}

func (all *batches) endWork(b *batch) {
	for ; b != nil; b = b.source {
		if b.writers--; b.state == failed {
			all.freeBuffer(b)
		}
	}
}

// completeIfDone passes a batch on to a batch worker, or ends it, once all of its slots were
// tried.
func (all *batches) completeIfDone(b *batch) {
	switch {
	case b.state == failed || b.finished < b.items:
	case b.bad != nil:
		all.fail(b, b.bad)
	default:
		all.schedule.remove(b)
		if b.source == nil && slices.Contains(b.onGPU, true) {
			b.form = layout.CUDA
		} else if b.source == nil {
			all.freeSlot(b)
		}
		all.schedule.completed = append(all.schedule.completed, b)
		all.takeWork.Broadcast()
	}
}

func (all *batches) assemble(b *batch) (err error) {
	defer catch(&err)
	switch b.task() {
	case toMake:
		b.assemble()
	case toCopy:
		all.copySource(b)
	case toSend:
		return all.send(b, b.source)
	case toSwap:
		if b.source != nil {
			return all.fetch(b)
		}
		b.assemble()
		return all.send(b, b)
	}
	return nil
}

// copySource makes the bytes of a copy.
func (all *batches) copySource(c *batch) {
	source := c.source
	if c.form == layout.PNG {
		all.converter.PutSheet(c.buf.Bytes(), c.spec, source.pixels, source.valid)
		return
	}
	layout.Turn(c.buf.Bytes()[layout.DataOffset(c.form, c.spec):], c.spec.Order, source.pixels, source.spec, all.opts.Kernels.Writing)
	layout.PutHeader(c.form, c.spec, c.buf.Bytes(), source.description().Meta())
}

// finishAssembly makes a batch visible, or ends it if err is not nil. If the batch was
// dropped meanwhile, only its memory is freed.
func (all *batches) finishAssembly(b *batch, err error) {
	all.mu.Lock()
	defer all.mu.Unlock()
	all.schedule.atWork--
	all.endWork(b)
	all.takeWork.Broadcast() // Quiet may have waited for this
	switch {
	case b.state == failed:
		all.freeBuffer(b)
	case err != nil && b.source == nil && b.form == layout.CUDA:
		all.leaveGPU(b)
	case err != nil:
		all.fail(b, err)
	default:
		b.state = ready
		if b.source == nil {
			all.meter.batch(b, b.valid == all.opts.BatchSize)
			all.sendAhead(b)
		}
		if b.form == layout.CUDA {
			all.freeHost(b)
		}
		all.freeUnneeded(b)
		close(b.done)
	}
}

// fail ends a batch, wakes its waiting Opens, and removes it, so that the next Open tries again.
func (all *batches) fail(b *batch, err error) {
	switch causeOf(err) {
	case ofFile:
		if all.opts.OnError != Fail {
			break // the replacement may be repaired
		}
		if len(all.tried) >= maxBadSamples {
			clear(all.tried)
		}
		all.tried[b.key] = true
	case ofMachine, ofMemory:
		err = machineError(err)
		if b.isSent() {
			all.deviceFailed(b, err)
		} else if b.waiting > 0 && !errors.Is(err, errAway) {
			warnMachine(all.log, b.key, err)
		}
	case ofShape:
		all.log.Warn("a batch cannot be made", "batch", b.key.String(), "reason", err)
	}
	all.removeBatch(b, err)
	close(b.done)
}

// newBatch enters a batch into the table and the queue.
func (all *batches) newBatch(k Key, form layout.Form) *batch {
	b := &batch{key: k, form: form, done: make(chan struct{})}
	all.table[k] = b
	all.enqueue(b)
	return b
}

// prefetch has a batch made for a stream, unless it exists, or failed before: the next Open
// checks whether its files have changed.
func (all *batches) prefetch(k Key, s *stream) *batch {
	if all.closed || all.table[k] != nil || all.tried[k] {
		return nil
	}
	return all.newBatch(k, all.catalog.madeIn(s.form))
}

// enqueue makes a batch visible to the batch workers.
func (all *batches) enqueue(b *batch) {
	b.begun = false
	all.schedule.queue = append(all.schedule.queue, b)
	all.takeWork.Broadcast()
}
