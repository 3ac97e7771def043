package engine

import (
	"context"
	"slices"
	"testing"

	"github.com/batchfs/batchfs/layout"
)

// unstarted is an engine without workers: the test is the worker.
func unstarted(t *testing.T, n int, change ...func(*Options)) *Engine {
	t.Helper()
	o := testOptions()
	o.Anonymous, o.IdleAfter = true, defaultIdle
	for _, f := range change {
		f(&o)
	}
	e, err := build(openDataset(t, testDir(t, n)), o)
	if err != nil {
		t.Fatal(err)
	}
	e.processors = make(chan struct{}, 2) // on any machine
	t.Cleanup(func() { e.Close() })
	return e
}

// ask is an Open up to where it would wait.
func (e *Engine) ask(k Key) *batch {
	e.mu.Lock()
	defer e.mu.Unlock()
	b := e.table[k]
	if b == nil {
		b = e.newBatch(k, layout.NHWCForm)
		e.enqueue(b)
	}
	b.refs++
	e.follow(b, layout.NHWCForm)
	b.waiting++
	e.asked++
	b.asked = e.asked
	e.urge(b)
	return b
}

// own lays the most important batch out and publishes it, as a batch worker does.
func own(t *testing.T, e *Engine) *batch {
	t.Helper()
	b := e.take()
	if err := e.layOut(b); err != nil {
		t.Fatal(err)
	}
	b.laidOut = true
	e.making = append(e.making, b)
	return b
}

func keysOf(list []*batch) (keys []int) {
	for _, b := range list {
		keys = append(keys, b.key.Batch)
	}
	return keys
}

func TestWantedGoesBeforePrefetchedAndNearBeforeFar(t *testing.T) {
	e := unstarted(t, 80, func(o *Options) { o.PrefetchDepth, o.BatchWorkers = 3, 4 })
	first := e.ask(Key{})                   // queues 1, 2 and 3 behind it
	other := e.ask(Key{Epoch: 1, Batch: 9}) // asked later, not prefetched for
	if got := keysOf(e.queue); !slices.Equal(got, []int{0, 1, 2, 3, 9}) {
		t.Fatalf("queue %v", got)
	}
	if b := e.take(); b != first {
		t.Errorf("first taken: %v", b.key)
	}
	if b := e.take(); b != other {
		t.Errorf("second taken: %v", b.key)
	}
	for want := 1; want <= 3; want++ {
		if b := e.take(); b.key != (Key{Batch: want}) {
			t.Errorf("prefetched batch %v taken, want %d", b.key, want)
		}
	}
}

func TestAllItemWorkersMakeTheFirstBatch(t *testing.T) {
	e := unstarted(t, 80, func(o *Options) { o.BatchSize, o.Workers = 8, 2 })
	first := e.ask(Key{})
	own(t, e)
	// Prefetched batches take neither memory nor processors while the wanted one has
	// work for everyone...
	e.mu.Lock()
	early := e.tooEarly(e.queue[0])
	e.mu.Unlock()
	if !early {
		t.Error("a prefetched batch is begun while somebody waits")
	}
	for slot := range 8 {
		if b, got := e.claim(); b != first || got != slot {
			t.Fatalf("claimed slot %d of %v, want slot %d of the first batch", got, b.key, slot)
		}
	}
	for range 8 - cap(e.processors) {
		e.itemDone(first, nil)
	}
	// ...and are begun as soon as it has not.
	e.mu.Lock()
	early = e.tooEarly(e.queue[0])
	e.mu.Unlock()
	if early {
		t.Error("item workers have nothing to do")
	}
}

func TestPrefetchedBatchIsPutAsideForAWantedOne(t *testing.T) {
	e := unstarted(t, 80, func(o *Options) { o.BatchWorkers, o.PrefetchDepth = 2, 2 })
	first := e.ask(Key{})
	own(t, e)
	for range 4 {
		e.claim()
		e.itemDone(first, nil)
	}
	e.mu.Lock()
	e.making = nil
	e.mu.Unlock()
	e.finish(first, e.assemble(first))
	e.mu.Lock()
	first.waiting--
	e.mu.Unlock()

	near, far := own(t, e), own(t, e) // batches 1 and 2, both prefetched
	if b, _ := e.claim(); b != near {
		t.Errorf("claimed from %v, want the nearer batch", b.key)
	}
	wanted := e.ask(Key{Epoch: 1, Batch: 7})
	if near.aside || !far.aside {
		t.Errorf("put aside: near %v, far %v; want the far one only", near.aside, far.aside)
	}
	if b, _ := e.claim(); b != near {
		t.Errorf("claimed from %v: a batch that is put aside hands out no more slots", b.key)
	}
	// Whoever waits for the far one now takes it back.
	e.ask(far.key)
	if far.aside {
		t.Error("a batch that somebody waits for stays aside")
	}
	if b := e.take(); b != wanted {
		t.Errorf("took %v, want the wanted batch", b.key)
	}
}

func TestDroppedBatchComesBackFromItsOwner(t *testing.T) {
	e := unstarted(t, 80)
	e.ask(Key{})
	own(t, e)
	e.claim() // of the wanted batch
	e.mu.Lock()
	for e.making[0].next < e.making[0].items {
		e.making[0].next++
		e.making[0].finished++
	}
	e.mu.Unlock()
	ahead := own(t, e)
	e.claim()
	e.mu.Lock()
	e.drop(ahead)
	if e.table[ahead.key] != nil || e.giving != 1 || ahead.buf == nil {
		t.Error("a batch that is being decoded into must keep its memory until that is done")
	}
	e.mu.Unlock()
	e.itemDone(ahead, nil)
	e.finish(ahead, e.assemble(ahead))
	if e.giving != 0 || ahead.buf != nil {
		t.Errorf("giving %d, memory %v", e.giving, ahead.buf)
	}
}

func TestStreamsThatMeetBecomeOne(t *testing.T) {
	e := start(t, testDir(t, 160))
	open := func(b int) {
		t.Helper()
		f, err := e.Open(context.Background(), Key{Batch: b}, layout.NHWCForm)
		if err != nil {
			t.Fatal(err)
		}
		f.Close()
	}
	for _, b := range []int{0, 1, 20, 21} { // two readers of one shard
		open(b)
	}
	if n := e.Stats().Batches.Streams; n != 2 {
		t.Fatalf("%d streams, want 2", n)
	}
	for b := 2; b <= 19; b++ { // the first reaches the second
		open(b)
	}
	s := e.Stats().Batches
	if s.Streams != 1 || s.Ahead > int64(e.opts.PrefetchDepth) {
		t.Errorf("%d streams with %d batches ahead, want 1 with at most %d", s.Streams, s.Ahead, e.opts.PrefetchDepth)
	}
}

func TestSeveralReadersShareAStream(t *testing.T) {
	e := start(t, testDir(t, 160), func(o *Options) { o.PrefetchDepth = 4 })
	// Four processes that take turns, not quite in order.
	for _, b := range []int{0, 2, 1, 3, 5, 4, 7, 6, 8, 10, 11, 9, 12, 13, 15, 14} {
		read(t, e, Key{Batch: b}, layout.NHWCForm)
	}
	s := e.Stats().Batches
	if s.Streams != 1 {
		t.Errorf("%d streams, want 1", s.Streams)
	}
	if most := int64(16 + 4); s.Decoded > most {
		t.Errorf("%d batches made for 16 read, want at most %d", s.Decoded, most)
	}
}
