package engine

import (
	"log/slog"
	"slices"
	"sync/atomic"
	"time"

	"github.com/batchfs/batchfs/engine/affinity"
)

// stallAfter is how long a read may take before its storage counts as hanging: far longer than
// any read takes on working storage, local or remote.
const stallAfter = time.Second

// crew is the item workers. A read that hangs in the kernel cannot be cancelled, so its worker
// is replaced, and batches on other storage continue. The lock of the batches guards it, except
// stalled.
type crew struct {
	size    int // number of workers whose reads do not hang
	most    int // workers in all
	start   func(affinity.Set)
	log     *slog.Logger
	path    func(id int64) string
	began   time.Time // times of reads count from here
	workers []*worker
	stalled atomic.Int32 // number of workers whose reads hang

	// Of a store, size is how many requests keep the processors busy, and limit the most; 0: size stays.
	limit  int
	excess int // samples that found too many others waiting for a processor
}

const (
	firstRemote = 256 // size, until it is known how long answers take
	leastRemote = 32  // so that a batch that was not made ahead does not begin with few
	enoughReady = 16  // samples that wait for each processor: those of answers that come unevenly
	manyExcess  = 64  // samples for each worker less
)

// adapt is called with how many samples wait for the processors when another one is ready to be decoded. If a processor
// waits for it, a worker is added: as one comes with each answer, their number doubles in the time
// of an answer. While too many wait, workers end, slowly, as to end and start them takes time, too: waiting samples take
// memory, and have left the processors' caches when their turn comes. The lock is held.
func (c *crew) adapt(processors, ready int, idle bool) {
	switch {
	case idle && c.size < c.limit && len(c.workers) < c.most:
		c.size++
		c.start(nil)
	case ready > enoughReady*processors:
		if c.excess++; c.excess >= manyExcess && c.size > leastRemote {
			c.size--
			c.excess = 0
		}
	}
}

// surplus is how many more workers there are than needed, as a stalled one is back; below 0:
// how many are missing.
func (c *crew) surplus() int { return len(c.workers) - int(c.stalled.Load()) - c.size }

// hangs reports whether a read for a batch hangs.
func (c *crew) hangs(b *batch) bool {
	return c.stalled.Load() > 0 && slices.ContainsFunc(c.workers, func(w *worker) bool {
		return w.stalled && w.item.b == b && w.item.isCurrent()
	})
}

// mayHang reports whether a batch of which nothing was read yet may have a worker. While reads
// hang, it gets one at first, and more when that one has returned, so that storage that does not
// answer costs one worker, not all of them. If reads of its own shard hang, a prefetched batch
// gets none, and a wanted one none of the last workers, which remain for other shards however
// often such batches are opened.
func (c *crew) mayHang(b *batch) bool {
	if c.stalled.Load() == 0 {
		return true
	}
	if b.inFlight > 0 {
		return false
	}
	hangs, sameShard := false, 0
	for _, w := range c.workers {
		if w.fetchingSince.Load() != 0 && w.item.b.key.Shard == b.key.Shard {
			hangs = hangs || w.stalled
			sameShard++
		}
	}
	return !hangs || b.waiting > 0 && sameShard < c.most-c.size
}

// replaceStalled starts a worker for each whose read has begun to hang.
func (c *crew) replaceStalled(now time.Time) {
	for _, w := range slices.Clone(c.workers) {
		since := w.fetchingSince.Load()
		if since == 0 || w.stalled || now.Sub(c.began)-time.Duration(since) < stallAfter {
			continue
		}
		c.stalled.Add(1)
		if w.fetchingSince.Load() != since { // it just returned; endFetch may have missed c.stalled
			c.stalled.Add(-1)
			continue
		}
		w.stalled = true
		c.log.Warn("storage does not answer: a read hangs, other batches go on without it",
			"path", c.path(w.fetching.Load()), "seconds", stallAfter.Seconds())
		if len(c.workers) < c.most {
			c.start(w.cpus)
		}
	}
	// A hanging worker that was not replaced at the limit is replaced when another returns.
	for c.surplus() < 0 && len(c.workers) < c.most {
		c.start(c.workers[0].cpus)
	}
}
