package cache

import (
	"math"
	"math/bits"
	"slices"
	"unsafe"
)

// An entry is a sample that is held, is being written, or is still being read after its eviction.
// Entries are numbered from 1; 0 means none.
type entry struct {
	stamp      Stamp
	size       int64 // bytes that are held
	chain      chain
	id         uint32
	sibling    uint32 // the next entry in the same bucket; for a free entry, the next free one
	waits      int32  // the epoch it waits for
	prev, next uint32 // in the ring of the held entries that wait for the same epoch
	readers    uint16 // how many readers are copying it right now
	held       bool
	packed     bool // in another form than that of the file, see Replace
}

const entryBytes = int64(unsafe.Sizeof(entry{}))

// A queue is the ring of the entries that wait for one epoch, in order of arrival.
type queue struct {
	waits int32
	first uint32
}

// A table finds entries by sample and by the epoch they wait for. It is not safe for concurrent
// use.
type table struct {
	memory  region   // backs the slices below
	buckets []uint32 // by hash; the length is a power of two
	entries []entry
	free    uint32 // head of the list of free entries
	fresh   int    // entries from here on were never used
	held    int
	queues  []queue // none is empty
}

// newTable makes a table for up to n entries.
func newTable(n int64) (t table, err error) {
	start := tableStart(n)
	if t.memory, err = reserve(start + entryBytes*(n+1)); err != nil {
		return t, err
	}
	t.buckets = values[uint32](t.memory, 0, bucketsFor(n))
	t.entries = values[entry](t.memory, start, n+1)
	t.fresh = 1
	return t, t.memory.use(int64(len(t.memory.mapping)))
}

// tableStart is the part of a table's bytes that does not depend on how many entries were used.
func tableStart(n int64) int64 { return roundUp(4*bucketsFor(n), int64(systemPage)) }

// bucketsFor keeps the mean length of a full table's buckets between 1 and 2. Sample numbers
// are dense, so their low bits are as good as any hash.
func bucketsFor(n int64) int64 { return 1 << (bits.Len64(uint64(max(n, 1))) - 1) }

func (t *table) close() {
	t.memory.free()
	*t = table{}
}

func (t *table) bucket(id uint32) *uint32 { return &t.buckets[int(id)&(len(t.buckets)-1)] }

// find returns the entry of a sample, 0 if it is not held.
func (t *table) find(id uint32) uint32 {
	if len(t.buckets) == 0 { // closed
		return 0
	}
	for n := *t.bucket(id); n != 0; n = t.entries[n].sibling {
		if t.entries[n].id == id {
			return n
		}
	}
	return 0
}

// spare says whether an entry is left, and whether it is fresh: never used before, so it needs
// memory.
func (t *table) spare() (fresh, ok bool) { return t.free == 0, t.free != 0 || t.fresh < len(t.entries) }

// take returns an unused entry. The caller has checked spare.
func (t *table) take() uint32 {
	n := t.free
	if n == 0 {
		n = uint32(t.fresh)
		t.fresh++
	}
	t.free = t.entries[n].sibling
	t.entries[n] = entry{}
	return n
}

// release frees an entry that is not held.
func (t *table) release(n uint32) {
	t.entries[n] = entry{sibling: t.free}
	t.free = n
}

// insert makes an entry held. Its waits and id must be set, and no held entry may have the same
// id.
func (t *table) insert(n uint32) {
	e := &t.entries[n]
	b := t.bucket(e.id)
	e.sibling, *b, e.held = *b, n, true
	t.held++
	t.enqueue(n)
}

// remove makes an entry unheld.
func (t *table) remove(n uint32) {
	e := &t.entries[n]
	at := t.bucket(e.id)
	for *at != n {
		at = &t.entries[*at].sibling
	}
	*at, e.held = e.sibling, false
	t.held--
	t.dequeue(n)
}

// relabel makes a held entry wait for another epoch.
func (t *table) relabel(n uint32, waits int) {
	t.dequeue(n)
	t.entries[n].waits = int32(waits)
	t.enqueue(n)
}

func (t *table) queue(waits int32) int {
	return slices.IndexFunc(t.queues, func(q queue) bool { return q.waits == waits })
}

func (t *table) enqueue(n uint32) {
	e := &t.entries[n]
	k := t.queue(e.waits)
	if k < 0 {
		e.prev, e.next = n, n
		t.queues = append(t.queues, queue{e.waits, n})
		return
	}
	first := t.queues[k].first
	e.prev, e.next = t.entries[first].prev, first
	t.entries[e.prev].next, t.entries[first].prev = n, n
}

func (t *table) dequeue(n uint32) {
	e := &t.entries[n]
	k := t.queue(e.waits)
	switch q := &t.queues[k]; {
	case e.next == n:
		t.queues = slices.Delete(t.queues, k, k+1)
	case q.first == n:
		q.first = e.next
	}
	t.entries[e.prev].next, t.entries[e.next].prev = e.next, e.prev
}

// expendable returns the held entry that is least likely to be read: one that waits for an
// epoch far from the one being read, the farthest first; then, unless onlyFar, one that waits for
// the latest epoch. It returns 0 if there is none.
func (t *table) expendable(reading int, onlyFar bool) (n uint32) {
	most := math.MinInt
	for _, q := range t.queues {
		ahead := int(q.waits) - reading
		rank := ahead - epochsAhead // at most 0
		if isFar(int(q.waits), reading) {
			rank = max(ahead, -ahead)
		} else if onlyFar {
			continue
		}
		if rank > most {
			most, n = rank, q.first
		}
	}
	return n
}
