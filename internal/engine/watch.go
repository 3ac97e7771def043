package engine

import (
	"slices"
	"time"
)

// If the kernel does not say when a reader unmaps a batch it has closed, memory is asked for again
// after these pauses.
const (
	soonestRetry = 2 * time.Millisecond
	latestRetry  = 50 * time.Millisecond
)

// A watcher looks after storage that hangs, idle streams, and batches that were refused memory. It
// retries these batches when memory comes back, and now and then.
type watcher struct{ batches *batches }

func (w watcher) run() {
	all := w.batches
	ledger, pause := all.memory.ledger, soonestRetry
	storage, idle, retry := time.NewTicker(stallAfter/4), time.NewTimer(all.opts.IdleAfter), time.NewTimer(pause)
	defer storage.Stop()
	defer idle.Stop()
	defer retry.Stop()
	retry.Stop()
	for {
		select {
		case <-all.ctx.Done():
			return
		case now := <-storage.C:
			w.replaceStalled(now)
			continue
		case <-idle.C:
			idle.Reset(w.endIdle())
			continue
		case <-ledger.kicked:
		case <-retry.C:
			ledger.back.Add(1)
			pause = min(2*pause, latestRetry)
		}
		if w.retryRefused() {
			retry.Reset(pause)
		} else {
			pause = soonestRetry
		}
	}
}

func (w watcher) replaceStalled(now time.Time) {
	all := w.batches
	all.mu.Lock()
	defer all.mu.Unlock()
	if !all.closed {
		all.flow.replaceHanging(all.flow.hungReads.findNew(now))
		all.flow.loadAhead()
		all.takeWork.Broadcast()
	}
}

// endIdle ends streams that have not been read for a while, and returns the memory of their
// batches to the system. It returns the time until another stream may be idle.
func (w watcher) endIdle() time.Duration {
	all := w.batches
	all.mu.Lock()
	ended, wait := all.streams.EndIdle(time.Now(), all.opts.IdleAfter)
	// Trim even without streams: readers may have closed batches that outlived theirs.
	trim := ended > 0 || !all.streams.AnyRead()
	all.mu.Unlock()
	if trim {
		all.memory.pool.Trim()
	}
	return max(wait, time.Millisecond)
}

// retryRefused retries batches and loads that were refused memory, and reports whether there are
// any.
func (w watcher) retryRefused() bool {
	all := w.batches
	all.mu.Lock()
	defer all.mu.Unlock()
	short := len(all.flow.room.waiting) > 0 || slices.ContainsFunc(all.schedule.in[wanted], (*batch).refused)
	all.memory.ledger.awaited.Store(short)
	all.takeWork.Broadcast()
	all.flow.room.some.Signal()
	return short
}
