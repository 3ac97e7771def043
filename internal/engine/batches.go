package engine

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/batchfs/batchfs/internal/fault"
	"github.com/batchfs/batchfs/internal/readahead"
	"github.com/batchfs/batchfs/layout"
)

// batches makes batches and holds those that exist. Its lock also guards its streams,
// schedule, flow and hungReads. While it is held, no file is read, no pixel is touched and no batch
// memory is allocated.
type batches struct {
	catalog *Catalog
	opts    *Options // the same as the catalog's
	memory  *memory
	caches  *caches
	bad     *badParts
	meter   *meter

	mu       sync.Mutex
	table    map[Key]*batch // every batch that exists
	knownBad map[Key]bool   // batches that failed after each of their samples was tried
	streams  *readahead.Streams
	schedule *schedule
	flow     *flow
	device   *device
	takeWork sync.Cond // wakes batch workers: a batch may be waiting for one
	closed   bool
	ctx      context.Context // for reads; it ends when the engine closes
	cancel   context.CancelFunc
	wait     sync.WaitGroup
}

func (all *batches) start() {
	for _, d := range all.flow.drawers {
		if err := d.presize(all.opts.Hints.Scratch); err != nil {
			all.opts.Logger.Warn("scratch memory could not be allocated beforehand", "reason", err)
		}
	}
	all.mu.Lock()
	defer all.mu.Unlock()
	all.flow.presizeLoads()
	all.device.startWorkers()
	for _, d := range all.flow.drawers {
		all.wait.Go(d.run)
	}
	for range min(all.opts.BatchWorkers, len(all.flow.drawers)) { // their work takes a processor
		all.wait.Go(batchWorker{all, toMake}.run)
		all.wait.Go(batchWorker{all, toCopy}.run)
	}
	if all.device.gpu != nil { // only one, so that no batch takes room that an earlier one was refused
		all.wait.Go(batchWorker{all, toSend}.run)
		all.wait.Go(batchWorker{all, toSwap}.run)
	}
	all.wait.Go(all.flow.room.run)
	all.wait.Go(watcher{all}.run)
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
	close(all.flow.next)
	all.flow.work.Broadcast()
	all.flow.gpuWork.Broadcast()
	all.takeWork.Broadcast()
	all.flow.room.some.Signal()
	return true
}

// finishLayout has the slots of a laid-out batch filled, or ends it if err is not nil.
func (all *batches) finishLayout(b *batch, err error) {
	all.mu.Lock()
	defer all.mu.Unlock()
	all.endWork(b)
	all.takeWork.Broadcast() // the next batch may begin now
	switch {
	case b.state == failed: // dropped meanwhile
	case err == nil:
		b.todo, b.short = b.order, time.Time{}
		all.schedule.move(b, making)
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

// beginWork keeps the memory of a batch, and that of its source if it is a copy, until endWork.
func (b *batch) beginWork() {
	for ; b != nil; b = b.source {
		b.writers++
	}
}

func (all *batches) endWork(b *batch) {
	for ; b != nil; b = b.source {
		if b.writers--; b.state == failed {
			b.free(all.memory)
		}
	}
}

// completeIfDone passes a batch on to a batch worker, or ends it, once all of its items were
// tried.
func (all *batches) completeIfDone(b *batch) {
	switch {
	case b.state == failed || b.finished < len(b.order):
	case b.bad != nil:
		all.fail(b, b.bad)
	default:
		all.schedule.endMaking(b, tried)
		if b.source == nil && slices.Contains(b.onGPU, true) {
			b.form = layout.CUDA
		} else if b.source == nil {
			b.freeSlot(all.memory)
		}
		all.takeWork.Broadcast()
	}
}

// finishAssembly makes a batch visible, or ends it if err is not nil.
func (all *batches) finishAssembly(b *batch, err error) {
	all.mu.Lock()
	defer all.mu.Unlock()
	all.endWork(b)
	switch {
	case b.state == failed:
	case err != nil && b.source == nil && b.form == layout.CUDA:
		all.device.leave(b)
	case err != nil:
		all.fail(b, err)
	default:
		all.schedule.move(b, ready)
		if b.source == nil {
			all.meter.batch(b, b.valid == all.opts.BatchSize)
			all.device.sendAhead(b)
		}
		if b.form == layout.CUDA {
			b.freeHost(all.memory)
		}
		all.freeUnneeded(b)
		close(b.done)
	}
}

// fail ends a batch, wakes its waiting Opens, and removes it, so that the next Open tries again.
func (all *batches) fail(b *batch, err error) {
	switch cause := fault.Of(err); {
	case errors.Is(err, ErrTooBig):
		all.opts.Logger.Warn("a batch cannot be made", "batch", b.key.String(), "reason", err)
	case cause == fault.File:
		if all.opts.OnError != Fail {
			break // the replacement may be repaired
		}
		if len(all.knownBad) >= maxBadSamples {
			clear(all.knownBad)
		}
		all.knownBad[b.key] = true
	case cause != fault.Cancelled:
		err = machineError(err)
		if b.isSent() {
			all.device.failed(b, err)
		} else if b.waiting > 0 && !errors.Is(err, errAway) {
			all.opts.warnMachine(b.key, err)
		}
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

// remove removes a batch from the table, if it is there.
func (all *batches) remove(b *batch) {
	if all.isKnown(b) {
		delete(all.table, b.key)
		all.streams.Left(b.key)
	}
}

// isKnown reports whether the next Open of a batch's key gets this batch. It does not if the batch
// is a copy, or was dropped.
func (all *batches) isKnown(b *batch) bool { return all.table[b.key] == b }

// A shelf holds the batches of streams.
type shelf struct{ *batches }

// Prefetch implements readahead.Shelf. It does not make a batch that failed before: the next Open
// checks whether its files have changed.
func (all shelf) Prefetch(k Key, form layout.Form) bool {
	if all.closed || all.table[k] != nil || all.knownBad[k] {
		return false
	}
	all.newBatch(k, all.catalog.MadeIn(form))
	return true
}

// Discard implements readahead.Shelf.
func (all shelf) Discard(k Key) { all.discard(all.table[k]) }

// Unneeded implements readahead.Shelf.
func (all shelf) Unneeded(k Key) { all.freeUnneeded(all.table[k]) }

// GiveUp implements readahead.Shelf.
func (all shelf) GiveUp(k Key) {
	if b := all.table[k]; b.refs == 0 && (!b.opened || b.state < ready) {
		all.discard(b)
	} else {
		all.freeUnneeded(b)
	}
}

// Held implements readahead.Shelf.
func (all shelf) Held(k Key) bool { return all.table[k].refs > 0 }

// enqueue makes a batch visible to the batch workers.
func (all *batches) enqueue(b *batch) {
	all.schedule.move(b, wanted)
	all.takeWork.Broadcast()
}

func without[T comparable](list []T, x T) []T {
	if i := slices.Index(list, x); i >= 0 {
		return slices.Delete(list, i, i+1)
	}
	return list
}
