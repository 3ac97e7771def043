package cache

import "math/bits"

// An entry is a sample that is held, or that is still being read after its eviction. Entries
// are numbered from 1; 0 means none.
type entry struct {
	stamp      Stamp
	chain      chain
	id         uint32
	sibling    uint32 // the next entry in the same bucket; for a free entry, the next free one
	waits      int32  // the epoch it waits for
	prev, next uint32 // among the entries that wait for the same epoch
	readers    uint16 // how many readers are copying it right now
	gone       bool   // no longer held: the last reader releases it
}

// entryBytes is the size of an entry.
const entryBytes = 48

// A queue lists the entries that wait for one epoch, in order of arrival.
type queue struct {
	waits       int32
	first, last uint32
}

// A table finds entries by sample and by the epoch they wait for. It is not safe for concurrent
// use.
type table struct {
	memory  [2]region // backs the following slices
	buckets []uint32  // by hash; the length is a power of two
	entries []entry
	free    uint32 // head of the list of free entries
	fresh   int    // entries from here on were never used
	held    int
	queues  []queue // none is empty
}

// newTable makes a table for up to n entries.
func newTable(n int64) (t table, err error) {
	if t.memory[0], err = reserve(4 * bucketsFor(n)); err != nil {
		return t, err
	}
	if t.memory[1], err = reserve(entryBytes * (n + 1)); err != nil {
		t.close()
		return t, err
	}
	if err := t.memory[0].use(4 * bucketsFor(n)); err != nil {
		t.close()
		return t, err
	}
	t.buckets = values[uint32](t.memory[0], int(bucketsFor(n)))
	t.entries = values[entry](t.memory[1], int(n+1))
	t.fresh = 1
	return t, nil
}

// bucketsFor keeps the mean length of a full table's buckets between 1 and 2. Sample numbers
// are dense, so their low bits are as good as any hash.
func bucketsFor(n int64) int64 { return 1 << (bits.Len64(uint64(max(n, 1))) - 1) }

func (t *table) close() {
	for i := range t.memory {
		t.memory[i].free()
	}
	t.buckets, t.entries, t.queues, t.held = nil, nil, nil, 0
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

// spare says whether an entry is available without more memory.
func (t *table) spare() bool { return t.free != 0 }

// room makes an entry that was never used usable, if possible.
func (t *table) room() bool {
	return t.fresh < len(t.entries) && t.memory[1].use(entryBytes*int64(t.fresh+1)) == nil
}

// take returns an unused entry; spare or room must have returned true.
func (t *table) take() uint32 {
	n := t.free
	if n == 0 {
		n = uint32(t.fresh)
		t.fresh++
	} else {
		t.free = t.entries[n].sibling
	}
	t.entries[n] = entry{}
	return n
}

// release frees an entry that is not held.
func (t *table) release(n uint32) {
	t.entries[n] = entry{sibling: t.free}
	t.free = n
}

// insert adds an entry to the table. Its waits and id must be set, and no held entry may have
// the same id.
func (t *table) insert(n uint32) {
	e := &t.entries[n]
	b := t.bucket(e.id)
	e.sibling, *b = *b, n
	t.held++
	t.enqueue(n)
}

// remove takes an entry out of the table and marks it as gone.
func (t *table) remove(n uint32) {
	e := &t.entries[n]
	at := t.bucket(e.id)
	for *at != n {
		at = &t.entries[*at].sibling
	}
	*at, e.sibling, e.gone = e.sibling, 0, true
	t.held--
	t.dequeue(n)
}

// relabel makes a held entry wait for another epoch.
func (t *table) relabel(n uint32, waits int) {
	t.dequeue(n)
	t.entries[n].waits = int32(waits)
	t.enqueue(n)
}

func (t *table) queue(waits int32) (k int, found bool) {
	for k := range t.queues {
		if t.queues[k].waits == waits {
			return k, true
		}
	}
	return 0, false
}

func (t *table) enqueue(n uint32) {
	e := &t.entries[n]
	k, found := t.queue(e.waits)
	if !found {
		t.queues = append(t.queues, queue{waits: e.waits})
		k = len(t.queues) - 1
	}
	q := &t.queues[k]
	e.prev, e.next = q.last, 0
	if q.last == 0 {
		q.first = n
	} else {
		t.entries[q.last].next = n
	}
	q.last = n
}

func (t *table) dequeue(n uint32) {
	e := &t.entries[n]
	k, _ := t.queue(e.waits)
	q := &t.queues[k]
	if e.prev == 0 {
		q.first = e.next
	} else {
		t.entries[e.prev].next = e.next
	}
	if e.next == 0 {
		q.last = e.prev
	} else {
		t.entries[e.next].prev = e.prev
	}
	if q.first == 0 {
		t.queues[k] = t.queues[len(t.queues)-1]
		t.queues = t.queues[:len(t.queues)-1]
	}
}

// stale returns an entry that waits for an epoch far from reading, the farthest first; 0 if
// there is none.
func (t *table) stale(reading int) uint32 {
	n := uint32(0)
	best := -1
	for _, q := range t.queues {
		if d := distance(int(q.waits), reading); far(int(q.waits), reading) && d > best {
			best, n = d, q.first
		}
	}
	return n
}

// leastWanted returns the most expendable entry: a stale one, else one that waits for the
// latest epoch; 0 if nothing is held.
func (t *table) leastWanted(reading int) uint32 {
	if n := t.stale(reading); n != 0 {
		return n
	}
	var latest queue
	for i, q := range t.queues {
		if i == 0 || q.waits > latest.waits {
			latest = q
		}
	}
	return latest.first
}

func distance(a, b int) int {
	if a > b {
		return a - b
	}
	return b - a
}
