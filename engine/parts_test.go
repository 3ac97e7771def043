package engine

import (
	"errors"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/batchfs/batchfs/engine/catalog"
	"github.com/batchfs/batchfs/layout"
	"github.com/batchfs/batchfs/shard"
)

// These tests run one part of the engine alone.

// A fakeShelf makes batches at once, and notes which are given up.
type fakeShelf struct {
	table map[Key]*batch
	gone  []int
}

func (f *fakeShelf) make(k Key) *batch {
	if f.table[k] == nil {
		f.table[k] = &batch{key: k, state: ready}
	}
	return f.table[k]
}

func (f *fakeShelf) prefetch(k Key, _ *stream) *batch {
	if f.table[k] != nil {
		return nil
	}
	return f.make(k)
}

func (f *fakeShelf) discard(b *batch) {
	b.leaveStream()
	delete(f.table, b.key)
	f.gone = append(f.gone, b.key.Batch)
}

func (f *fakeShelf) freeUnneeded(b *batch) {
	if !b.stream.needs(b) {
		f.discard(b)
	}
}

// testStreams returns the streams of one shard of 100 batches.
func testStreams(t *testing.T, depth int) (*streams, *fakeShelf) {
	t.Helper()
	order := shard.Config{Samples: 100, Shards: 1, BatchSize: 1, PadLastBatch: true}
	plan, err := shard.New(order)
	if err != nil {
		t.Fatal(err)
	}
	shelf := &fakeShelf{table: map[Key]*batch{}}
	c := &Catalog{Plan: plan, Options: catalog.Options{Config: order, Epochs: 2}}
	return &streams{catalog: c, depth: depth, shelf: shelf, byShard: map[int][]*stream{}}, shelf
}

// TestStreamsAlone: what is read ahead and what is kept, for one reader, for a second a
// little behind, and for two that meet.
func TestStreamsAlone(t *testing.T) {
	all, shelf := testStreams(t, 3)
	open := func(index int) *stream {
		b := shelf.make(Key{Batch: index})
		all.follow(b, layout.NHWCForm)
		return b.stream
	}
	var s *stream
	for i := range 10 {
		s = open(i)
	}
	if got := keysOf(s.ahead); !slices.Equal(got, []int{10, 11, 12}) {
		t.Errorf("ahead of batch 9: %v", got)
	}
	if got := keysOf(s.recent); !slices.Equal(got, []int{8, 9}) || !slices.Equal(shelf.gone, forwards(8)) {
		t.Errorf("kept: %v, given up: %v", got, shelf.gone)
	}
	open(7) // a second reader, two behind: their streams merge
	for i := 10; i < 15; i++ {
		s = open(i)
	}
	if got := keysOf(s.recent); !slices.Equal(got, []int{11, 12, 13, 14}) {
		t.Errorf("kept for a reader that is two behind: %v", got)
	}
	open(60)
	open(61)
	if streams, ahead := all.count(); streams != 2 || ahead != 6 {
		t.Errorf("%d streams with %d batches ahead, after a jump", streams, ahead)
	}
	for i := 15; i < 60; i++ {
		open(i)
	}
	if streams, ahead := all.count(); streams != 1 || ahead != 3 {
		t.Errorf("%d streams with %d batches ahead, where two have met", streams, ahead)
	}
	if ended, _ := all.endIdle(time.Now().Add(time.Hour), time.Minute); ended != 1 || len(all.byShard) != 0 {
		t.Errorf("%d streams ended by idleness", ended)
	}
}

// TestStreamsBegin: the batch after a lone one may be opened a little out of order, by processes
// that take turns, and it shows the order; one farther ahead is another lone batch.
func TestStreamsBegin(t *testing.T) {
	const depth = 3
	for steps, ahead := range map[int]int64{1: depth, depth + 1: depth, depth + 2: 0, -1: 0} {
		all, shelf := testStreams(t, depth)
		for _, index := range []int{20, 20 + steps} {
			all.follow(shelf.make(Key{Batch: index}), layout.NHWCForm)
		}
		if _, n := all.count(); n != ahead {
			t.Errorf("%d batches after a lone one: %d are read ahead, want %d", steps, n, ahead)
		}
	}
}

// fakeResidents have nothing to give, and note what is asked for.
type fakeResidents struct {
	wanted  bool
	dropped int // by dropUnheld
	asked   []string
}

func (f *fakeResidents) isWanted(*batch) bool { return f.wanted }
func (f *fakeResidents) dropOldestRead()      { f.asked = append(f.asked, "read") }
func (f *fakeResidents) dropUnheld() int      { f.asked = append(f.asked, "unheld"); return f.dropped }
func (f *fakeResidents) takeFrom(_ *batch, _ uint64, most worth) (found, free bool) {
	f.asked = append(f.asked, map[worth]string{worthSpent: "spent", worthForeseen: "foreseen"}[most])
	return false, false
}

// TestMemoryAlone: what a batch may have, what is asked for it, and what comes back.
func TestMemoryAlone(t *testing.T) {
	const limit = 1 << 20
	m := newMemory(ptr(Options{MemoryLimit: limit, Anonymous: true}.withDefaults()))
	defer m.close()
	f := &fakeResidents{}
	m.batches = f
	b := &batch{}
	if _, err := m.buffer(b, limit+1); !errors.Is(err, ErrNoMemory) || len(f.asked) != 0 {
		t.Errorf("more than there is: %v, after asking for %v", err, f.asked)
	}
	first, err := m.buffer(b, limit/2)
	if err != nil {
		t.Fatal(err)
	}
	for _, f.wanted = range []bool{false, true} {
		f.asked = nil
		if _, err := m.buffer(b, limit*3/4); !errors.Is(err, errNoRoom) || !slices.Equal(f.asked, []string{"spent", "foreseen"}) {
			t.Errorf("wanted %v: %v, after asking for %v", f.wanted, err, f.asked)
		}
	}
	if f.asked = nil; (cacheBudget{m}).Reserve(limit) || !slices.Equal(f.asked, []string{"read"}) {
		t.Errorf("for the cache, %v was asked for", f.asked)
	}
	for _, f.dropped = range []int{1, 0} { // without leases, their memory is free without the pool
		if got := m.giveBackIdle(); got != (f.dropped > 0) {
			t.Errorf("idle memory was given back: %v, although %d batches were dropped", got, f.dropped)
		}
	}
	m.freeBuffer(first)
	second, err := m.buffer(b, limit*3/4) // what is idle goes first
	if err != nil {
		t.Fatal(err)
	}
	m.freeBuffer(second)
	m.setLimit(0)
	if used, sum := m.ledger.usage(useBatches); used != 0 || sum != 0 {
		t.Errorf("%d bytes are charged under a limit of 0", sum)
	}
}

// TestPresize: the buffers of one stream are there at the start; of large ones one, or none.
func TestPresize(t *testing.T) {
	for _, c := range []struct{ hint, limit, want int64 }{
		{0, 256 << 20, 4 * int64(os.Getpagesize())}, // what the index says is less than a page
		{64 << 10, 256 << 20, 4 * 256 << 10},
		{4 << 20, 64 << 20, 16 << 20},
		{4 << 20, 31 << 20, 0},
	} {
		e := unstarted(t, 8, func(o *Options) { o.Hints.Batch, o.MemoryLimit = c.hint, c.limit })
		if got := e.memory.pool.Trim(); got != c.want {
			t.Errorf("with %d bytes for a sample and a limit of %d, there are %d bytes, want %d", c.hint, c.limit, got, c.want)
		}
	}
}

func ptr[T any](v T) *T { return &v }
