package engine

import (
	"slices"
	"sync/atomic"
	"time"
)

// stallAfter is how long a read may take before its storage counts as hanging: far longer than any
// read takes on working storage, local or remote.
const stallAfter = time.Second

// extraLoads is how many more loads than usual one shard may have while reads hang. All of the
// usual loads hang before that is known, so fewer would keep its other batches from being loaded.
const extraLoads = 6

// hungReads knows the loads whose reads hang. Such a read cannot be cancelled, so another load
// stands in for it, and batches on other storage continue. The lock of the batches guards all
// fields except count.
type hungReads struct {
	*batches
	began time.Time // times of reads are counted from here
	ended time.Time // when a read that hung last returned
	loads []*load   // all loads that exist
	count atomic.Int32
}

// hangs reports whether a read for a batch hangs.
func (h *hungReads) hangs(b *batch) bool {
	return h.count.Load() > 0 && slices.ContainsFunc(h.loads, func(l *load) bool {
		return l.stalled && l.item.batch == b && l.item.isCurrent()
	})
}

// mayHang reports whether a batch of which nothing has been read yet may be loaded. While reads
// hang, it gets one load at first, and more when that has returned. So storage that does not answer
// costs one load, not all of them. If reads of its own shard hang, a prefetched batch gets none,
// and a batch that an Open waits for gets none of the last loads, which are left for other shards.
func (h *hungReads) mayHang(b *batch) bool {
	if h.count.Load() == 0 {
		return true
	}
	if b.inFlight > 0 {
		return false
	}
	hangs, sameShard := false, 0
	for _, l := range h.loads {
		if l.fetchingSince.Load() != 0 && l.item.batch.key.Shard == b.key.Shard {
			hangs = hangs || l.stalled
			sameShard++
		}
	}
	return !hangs || b.waiting > 0 && sameShard < h.opts.loads()+extraLoads
}

// findNew notes the loads whose reads have begun to hang, and returns them.
func (h *hungReads) findNew(now time.Time) (found []*load) {
	calm := h.memory.over(now)
	for _, l := range h.loads {
		since := l.fetchingSince.Load()
		if since == 0 || l.stalled || min(now.Sub(h.began)-time.Duration(since), calm) < stallAfter {
			continue
		}
		bad, row := h.bad.listOf(l.fetching.Load())
		ds, id := bad.ds, int(row)
		inStore := ds.InStore(id)
		if inStore && !ds.IsAway(id) {
			continue // it waits for its turn, or for a single slow answer
		}
		h.count.Add(1)
		if l.fetchingSince.Load() != since { // it just returned, and endFetch may have missed count
			h.count.Add(-1)
			continue
		}
		l.stalled = true
		if !inStore { // a store reports that itself, once
			h.opts.Logger.Warn("storage does not answer: a read hangs, other batches go on without it", "path", ds.Path(id), "seconds", stallAfter.Seconds())
		}
		found = append(found, l)
	}
	return found
}
