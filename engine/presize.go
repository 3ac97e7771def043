package engine

import "errors"

// presizeBytes bounds what is allocated without a hint before the first Open.
const presizeBytes = 256 << 20

// presize allocates the buffers that one stream cycles through (the prefetched batches, the
// open one, and the one being released), so that no reader waits for pages as well as for
// pixels. If they are too large, it allocates one buffer, or none, unless a hint gives
// their size. Without readers they are freed like those of an idle stream.
func (e *Engine) presize() {
	if err := e.store.Leases(); err != nil {
		e.log.Warn("batch memory is freed after each batch instead of reused, which is slower", "reason", err)
	}
	size := e.catalog.Size(Key{}, e.catalog.tensorForm())
	most := min(presizeBytes, e.opts.MemoryLimit/4)
	if hint := saturating(e.opts.Hints.Batch, e.opts.BatchSize); hint > 0 {
		size, most = hint, e.opts.MemoryLimit/2
	}
	n := e.opts.PrefetchDepth + 2
	if saturating(n, size) > most {
		n = 1
	}
	if size > most {
		return
	}
	// Memory that is unavailable now is requested again by the batch that needs it.
	_ = e.pool.Presize(size, n)
	e.warnUnlocked()
}

// warnUnlocked logs once that the kernel refused to lock batch memory. That may happen only
// when a larger batch comes.
func (e *Engine) warnUnlocked() {
	if !e.opts.Lock || e.unlocked.Load() {
		return
	}
	err := e.pool.LockError()
	if err == nil || e.unlocked.Swap(true) {
		return
	}
	e.log.Warn("batch memory is not page-locked", "reason", err)
}

// checkLimit warns if the memory limit leaves no room for any batch.
func (e *Engine) checkLimit() {
	_, used := e.ledger.usage(useBatches)
	if size := e.catalog.Size(Key{}, e.catalog.tensorForm()); size > e.opts.MemoryLimit-used {
		e.log.Warn("the memory limit leaves no room for a batch: every open will fail",
			"limit", e.opts.MemoryLimit, "used", used, "size of a batch", size)
	}
}

// presize gives the worker's buffers their hinted sizes.
func (w *worker) presize() error {
	hints := w.engine.opts.Hints
	return errors.Join(w.input.Presize(int(hints.Input)), w.pixels.Presize(int(hints.Scratch)))
}
