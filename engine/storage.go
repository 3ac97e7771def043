package engine

import (
	"fmt"
	"strings"
	"time"
)

const (
	// stallAfter is how long a read may take before its storage counts as hanging: far
	// longer than any read takes on working storage, local or remote.
	stallAfter = time.Second
	// watchEvery is the interval between checks of the reads.
	watchEvery = stallAfter / 4
	// closeWait is how long Close waits for reads that cannot be cancelled.
	closeWait = 1500 * time.Millisecond
)

// mostWorkers bounds the item workers while reads hang. A read that hangs in the kernel (a
// dead NFS server, a disk that does not answer) cannot be cancelled, so its worker is
// replaced, and batches on other storage continue.
func (e *Engine) mostWorkers() int { return 2*e.opts.Workers + 6 }

// watchStorage replaces item workers whose reads hang.
func (e *Engine) watchStorage() {
	ticker := time.NewTicker(watchEvery)
	defer ticker.Stop()
	for {
		select {
		case <-e.closing:
			return
		case <-ticker.C:
			e.replaceStalled(time.Now())
		}
	}
}

// mayHang tells whether a batch of which nothing was read yet may have a worker, while reads
// hang. It gets one at first, and the others when that one is back: a batch on storage that
// does not answer costs one worker, not all of them. Where reads of the same shard hang
// there is none for what is only prefetched, and not the last ones for what is wanted, so
// that there are workers for other shards however often such a batch is asked for.
func (e *Engine) mayHang(b *batch) bool {
	if e.stalled.Load() == 0 {
		return true
	}
	if b.inFlight > 0 {
		return false
	}
	hangs, sameShard := false, 0
	for _, w := range e.workers {
		if w.fetchingSince.Load() != 0 && w.item.b.key.Shard == b.key.Shard {
			hangs = hangs || w.stalled
			sameShard++
		}
	}
	return !hangs || b.waiting > 0 && sameShard < e.mostWorkers()-e.opts.Workers
}

// replaceStalled starts a worker for each whose read has begun to hang.
func (e *Engine) replaceStalled(now time.Time) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return
	}
	for _, w := range append([]*worker(nil), e.workers...) {
		since := w.fetchingSince.Load()
		if since == 0 || w.stalled || now.Sub(e.meter.start)-time.Duration(since) < stallAfter {
			continue
		}
		e.stalled.Add(1)
		if w.fetchingSince.Load() != since { // it just returned; endFetch may have missed e.stalled
			e.stalled.Add(-1)
			continue
		}
		w.stalled = true
		if w.item.current() {
			w.item.b.stalled++
		}
		e.log.Warn("storage does not answer: a read hangs, other batches go on without it",
			"path", e.ds.Path(int(w.fetching.Load())), "seconds", stallAfter.Seconds())
		if len(e.workers) < e.mostWorkers() {
			e.startWorker(w.cpus)
		}
	}
	// A hanging worker that was not replaced at the limit is replaced when another returns.
	for len(e.workers)-int(e.stalled.Load()) < e.opts.Workers && len(e.workers) < e.mostWorkers() {
		e.startWorker(e.workers[0].cpus)
	}
	e.takeWork.Broadcast()
}

// beginFetch notes that the worker begins to read a sample from storage.
func (w *worker) beginFetch(id int64) {
	w.fetching.Store(id)
	w.fetchingSince.Store(int64(time.Since(w.engine.meter.start)))
}

// endFetch notes that storage has answered.
func (w *worker) endFetch() {
	w.fetchingSince.Store(0)
	e := w.engine
	if e.stalled.Load() == 0 {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if !w.stalled {
		return
	}
	w.stalled = false
	e.stalled.Add(-1)
	if w.item.current() {
		w.item.b.stalled--
	}
	e.itemWork.Broadcast() // its batch hands out slots again
	e.takeWork.Broadcast()
}

// surplusWorker reports whether the calling worker may end, because a stalled worker is
// back.
func (e *Engine) surplusWorker() bool { return len(e.workers)-int(e.stalled.Load()) > e.opts.Workers }

// awaitWorkers waits until all goroutines of the engine have ended, except for reads that
// hang, which the error names.
func (e *Engine) awaitWorkers() error {
	ended := make(chan struct{})
	go func() {
		e.wait.Wait()
		close(ended)
	}()
	for {
		select {
		case <-ended:
			e.free()
			return nil
		case <-time.After(closeWait):
		}
		paths := e.beingFetched()
		if len(paths) == 0 {
			continue // an image takes long to decode
		}
		go func() {
			<-ended // if the storage ever answers
			e.free()
		}()
		return fmt.Errorf("%w: %s", ErrLeftBehind, strings.Join(paths, ", "))
	}
}

// beingFetched are the paths of the samples whose reads are in progress.
func (e *Engine) beingFetched() (paths []string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, w := range e.workers {
		if w.fetchingSince.Load() != 0 {
			paths = append(paths, e.ds.Path(int(w.fetching.Load())))
		}
	}
	for k := range e.checks {
		paths = append(paths, k.String())
	}
	return paths
}
