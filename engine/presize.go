package engine

import "errors"

// presizeBytes bounds what is allocated before anybody has asked for a batch, and
// nobody asked to.
const presizeBytes = 256 << 20

// presize allocates the buffers that one stream goes through, the batches ahead of
// its reader, the open one, and the one that is being let go, so that no reader
// waits for pages as well as for pixels. Where they are too large it is one
// buffer, or none, unless a hint says how large they are. Without readers they go
// back like those of an idle stream.
func (e *Engine) presize() {
	if err := e.store.Leases(); err != nil {
		e.log.Warn("batch memory is freed after each batch instead of reused, which is slower", "reason", err)
	}
	size := e.Size(Key{}, formOf(e.opts.Layout))
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
	// What is not to be had now is asked for again with the batch that needs it.
	_ = e.pool.Presize(size, n)
	e.warnUnlocked()
}

// warnUnlocked says once that the kernel refused to lock batch memory, which may be
// only when a larger batch comes.
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

// checkLimit warns of a memory limit under which no batch can be made.
func (e *Engine) checkLimit() {
	_, used := e.ledger.usage(useBatches)
	if size := e.Size(Key{}, formOf(e.opts.Layout)); size > e.opts.MemoryLimit-used {
		e.log.Warn("the memory limit leaves no room for a batch: every open will fail",
			"limit", e.opts.MemoryLimit, "used", used, "size of a batch", size)
	}
}

// presize gives the worker's buffers the sizes that were asked for.
func (w *worker) presize() error {
	hints := w.engine.opts.Hints
	return errors.Join(w.input.Presize(int(hints.Input)), w.pixels.Presize(int(hints.Scratch)))
}
