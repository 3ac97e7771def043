package cache

import (
	"encoding/binary"
	"fmt"
	"maps"
	"sync/atomic"
	"testing"

	"github.com/batchfs/batchfs/internal/testkit"
)

var raceEnabled = testkit.RaceDetector()

// A source makes the bytes of samples: every 8 bytes identify the sample and their position in
// it.
type source struct{ sizes []int }

func (s source) stamp(id int64) Stamp {
	return Stamp{Size: int64(s.sizes[id]), ModTime: 1_700_000_000e9 + id}
}

// word is 8 bytes of a sample.
func word(id int64, s Stamp, at int) uint64 {
	return uint64(id)<<40 ^ uint64(s.ModTime)<<20 ^ uint64(at)
}

// fill writes the bytes of a sample's version to p. The race detector would spend most of a test's
// time on them.
//
//go:norace
func fill(p []byte, id int64, s Stamp) {
	at := 0
	for ; at+8 <= len(p); at += 8 {
		binary.LittleEndian.PutUint64(p[at:], word(id, s, at))
	}
	for k := range len(p) - at {
		p[at+k] = byte(word(id, s, at) >> (8 * k))
	}
}

func content(id int64, s Stamp) []byte {
	p := make([]byte, s.Size)
	fill(p, id, s)
	return p
}

// verify says where p is not the sample's bytes, -1 if nowhere.
//
//go:norace
func verify(p []byte, id int64, s Stamp) int {
	at := 0
	for ; at+8 <= len(p); at += 8 {
		if binary.LittleEndian.Uint64(p[at:]) != word(id, s, at) {
			return at
		}
	}
	for k := range len(p) - at {
		if p[at+k] != byte(word(id, s, at)>>(8*k)) {
			return at + k
		}
	}
	return -1
}

// account is a Budget that can be told to refuse.
type account struct {
	used  atomic.Int64
	limit atomic.Int64
}

func newAccount(limit int64) *account {
	a := &account{}
	a.limit.Store(limit)
	return a
}

func (a *account) Reserve(n int64) bool {
	if n <= 0 {
		panic("nothing reserved")
	}
	for {
		used := a.used.Load()
		if used+n > a.limit.Load() {
			return false
		}
		if a.used.CompareAndSwap(used, used+n) {
			return true
		}
	}
}

func (a *account) Release(n int64) {
	if n <= 0 || a.used.Add(-n) < 0 {
		panic("more released than was reserved")
	}
}

// planFunc is a Plan that always knows.
type planFunc func(epoch int, id int64) bool

func (f planFunc) Keep(epoch int, id int64) (keep, known bool) { return f(epoch, id), true }

// latePlan is a Plan that knows only some epochs.
type latePlan struct{ known map[int]bool }

func (p latePlan) Keep(epoch int, _ int64) (keep, known bool) { return true, p.known[epoch] }

func open(t testing.TB, o Options) *Cache {
	t.Helper()
	c, err := New(o)
	testkit.Must(t, err)
	t.Cleanup(c.Close)
	return c
}

// read does what the engine does with a sample of an epoch, and says whether it was a hit.
func read(t testing.TB, c *Cache, epoch int, id int64, s Stamp) (hit bool) {
	p, _, hit := c.Get(epoch, id, s, nil, func(n int) []byte { return make([]byte, n) })
	if !hit {
		c.Put(epoch, id, s, content(id, s))
		return false
	}
	if int64(len(p)) != s.Size || verify(p, id, s) >= 0 {
		t.Errorf("sample %d: %d bytes, wrong from byte %d on", id, len(p), verify(p, id, s))
	}
	return true
}

// check compares the counts of an idle cache with its table, and its charges with what its samples
// take: every page is a sample's, free, or without memory.
func check(c *Cache) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	a, t := &c.arena, &c.table
	waiting, held, bytes, packed, grown := map[int32]int{}, 0, int64(0), int64(0), int64(0)
	taken, crumbs := 0, 0
	queued := map[int32]int{}
	for _, q := range t.queues {
		for n := q.first; queued[q.waits] == 0 || n != q.first && queued[q.waits] <= t.held; n = t.entries[n].next {
			queued[q.waits]++
		}
	}
	for n := range t.entries[:t.fresh] {
		e := t.entries[n]
		if !e.held {
			continue
		}
		if e.readers != 0 || t.find(e.id) != uint32(n) || !e.packed && e.size != e.stamp.Size {
			return fmt.Errorf("entry %d: %+v", n, e)
		}
		held++
		waiting[e.waits]++
		bytes += e.size
		if e.packed {
			packed++
			grown += Cost(e.size) - Cost(e.stamp.Size)
		}
		for p := e.chain.page; p != 0; p = a.pages[p].next {
			taken++
		}
		for k := e.chain.crumb; k != 0; k = binary.NativeEndian.Uint32(a.crumb(k)) {
			crumbs++
		}
	}
	if held != t.held || !maps.Equal(waiting, queued) || bytes != c.held || packed != c.packed || grown != c.grown {
		return fmt.Errorf("%d entries of %d bytes wait for %v, of which %d were replaced and grew by %d: %+v", held, bytes, waiting, packed, grown, c)
	}
	if pages := a.fresh - 1 - a.cold.n - a.warm.n - taken; pages*crumbsPerPage != crumbs+a.nFree {
		return fmt.Errorf("%d crumbs are used and %d are free in %d pages", crumbs, a.nFree, pages)
	}
	want := fixedBytes(c.policy, c.ledger.limit, c.samples()) + int64(a.fresh-1-a.cold.n)*pageCost + int64(t.fresh-1)*(entryBytes+c.lfu.entryCost())
	if c.ledger.charged != want || c.ledger.charged > c.ledger.limit {
		return fmt.Errorf("%d bytes charged, %d are held, the limit is %d", c.ledger.charged, want, c.ledger.limit)
	}
	return nil
}

// samples is a number of samples for which a cache would have tables of the same size.
func (c *Cache) samples() int64 {
	n := int64(len(c.table.entries) - 1)
	if c.lfu != nil {
		n = max(n, c.lfu.counters)
	}
	return n
}

func mustCheck(t testing.TB, c *Cache) {
	t.Helper()
	testkit.Must(t, check(c))
}
