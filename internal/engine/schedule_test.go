package engine

import (
	"bytes"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/batchfs/batchfs/internal/testkit"
	"github.com/batchfs/batchfs/layout"
)

// unstarted returns an engine without workers. The test acts as the workers.
func unstarted(t *testing.T, n int, change ...func(*Options)) *Engine {
	t.Helper()
	still := func(o *Options) { o.Anonymous, o.IdleAfter = true, defaultIdle }
	e := built(t, testDir(t, n), append([]func(*Options){still}, change...)...)
	e.flow.onlyGPU = true // the test takes the slots
	return e
}

// ask does what Open does before it waits.
func (e *Engine) ask(k Key) *batch {
	e.batches.mu.Lock()
	defer e.batches.mu.Unlock()
	b := e.batches.table[k]
	if b == nil {
		b = e.batches.newBatch(k, layout.NHWCForm)
	}
	b.refs++
	e.batches.streams.Follow(b.key, layout.NHWCForm)
	b.opened = true
	b.waiting++
	b.askedAs = e.batches.schedule.newTurn()
	return b
}

// own lays out and publishes the most important batch, like a batch worker.
func own(t *testing.T, e *Engine) *batch {
	t.Helper()
	b, _ := batchWorker{e.batches, toMake}.take()
	testkit.Must(t, (batchWorker{batches: e.batches}).layOut(b))
	e.batches.finishLayout(b, nil)
	return b
}

// claimed is a load that was handed the next slot.
func claimed(t *testing.T, e *Engine) *load {
	t.Helper()
	e.batches.mu.Lock()
	defer e.batches.mu.Unlock()
	b := e.batches.schedule.nextForGPU()
	if b == nil {
		t.Fatal("nothing to claim")
	}
	return e.batches.flow.claimSlot(b)
}

// completeWanted decodes all slots of the wanted batch and assembles it.
func completeWanted(t *testing.T, e *Engine, want *batch) {
	t.Helper()
	for range want.items {
		e.batches.itemDone(claimed(t, e).item, nil, nil)
	}
	b, isDone := batchWorker{e.batches, toMake}.take()
	if b != want || !isDone {
		t.Fatalf("took %v, want the complete batch", b.key)
	}
	e.batches.finishAssembly(want, batchWorker{batches: e.batches}.assemble(want))
	e.batches.mu.Lock()
	want.waiting--
	e.batches.mu.Unlock()
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
	other := e.ask(Key{Epoch: 1, Batch: 9}) // asked for later, with no read-ahead
	if got := keysOf(e.batches.schedule.in[wanted]); !slices.Equal(got, []int{0, 1, 2, 3, 9}) {
		t.Fatalf("queue %v", got)
	}
	for i, want := range []*batch{first, other, e.batches.table[Key{Batch: 1}], e.batches.table[Key{Batch: 2}], e.batches.table[Key{Batch: 3}]} {
		b, isDone := batchWorker{e.batches, toMake}.take()
		if b != want || isDone {
			t.Errorf("taken as number %d: %v, want %v", i, b.key, want.key)
		}
		e.batches.mu.Lock()
		e.batches.schedule.in[layingOut], b.writers = nil, 0 // so that the test never runs out of batch workers
		e.batches.mu.Unlock()
	}
}

func TestAllMakeTheFirstBatch(t *testing.T) {
	e := unstarted(t, 80, func(o *Options) { o.BatchSize, o.Workers = 8, 2 })
	first := e.ask(Key{})
	own(t, e)
	// Prefetched batches take neither memory nor processors while the wanted one has enough slots
	// for everyone...
	e.batches.mu.Lock()
	early := e.batches.schedule.tooEarly()
	e.batches.mu.Unlock()
	if !early {
		t.Error("a prefetched batch is begun while somebody waits")
	}
	for slot := range 8 {
		it := claimed(t, e)
		if it.item.batch != first || it.item.slot != slot {
			t.Fatalf("claimed slot %d of %v, want slot %d of the first batch", it.item.slot, it.item.batch.key, slot)
		}
	}
	// ...and are started as soon as it does not.
	e.batches.mu.Lock()
	early = e.batches.schedule.tooEarly()
	e.batches.mu.Unlock()
	if early {
		t.Error("nobody has anything to do")
	}
}

// TestWantedBatchesWaitForABatchWorker: no more of them are in the making than BatchWorkers.
func TestWantedBatchesWaitForABatchWorker(t *testing.T) {
	e := unstarted(t, 80, func(o *Options) { o.PrefetchDepth, o.BatchWorkers = 0, 2 })
	first := e.ask(Key{})
	e.ask(Key{Batch: 5})
	e.ask(Key{Batch: 10})
	own(t, e)
	own(t, e)
	waits := func() bool { return e.batches.schedule.nextToLayOut(toMake) == nil }
	if !e.locked(waits) {
		t.Error("a third batch is begun beside two")
	}
	completeWanted(t, e, first)
	if e.locked(waits) {
		t.Error("no batch follows the complete one")
	}
}

// TestWantedBatchesNeedNotWaitForPrefetchedOnes: prefetched batches give way without losing
// the slots they have done.
func TestWantedBatchesNeedNotWaitForPrefetchedOnes(t *testing.T) {
	e := unstarted(t, 80, func(o *Options) { o.BatchWorkers, o.PrefetchDepth = 2, 2 })
	first := e.ask(Key{})
	own(t, e)
	completeWanted(t, e, first)

	near, _ := own(t, e), own(t, e) // batches 1 and 2, both prefetched
	if it := claimed(t, e); it.item.batch != near {
		t.Errorf("claimed from %v, want the nearer batch", it.item.batch.key)
	}
	wanted := e.ask(Key{Epoch: 1, Batch: 7})
	if b := own(t, e); b != wanted {
		t.Errorf("laid out %v, want the wanted batch", b.key)
	}
	if it := claimed(t, e); it.item.batch != wanted {
		t.Errorf("claimed from %v, want the wanted batch", it.item.batch.key)
	}
	e.batches.mu.Lock()
	defer e.batches.mu.Unlock()
	if len(near.todo) != near.items-1 || near.inFlight != 1 {
		t.Errorf("the prefetched batch handed out %d, of which %d are in flight", near.items-len(near.todo), near.inFlight)
	}
}

// TestDroppedBatchGivesItsMemoryBackWhenNobodyWritesIntoIt: a read in flight does not hold
// the memory, because it can no longer write into it.
func TestDroppedBatchGivesItsMemoryBackWhenNobodyWritesIntoIt(t *testing.T) {
	e := unstarted(t, 80)
	e.ask(Key{})
	completeWanted(t, e, own(t, e))
	ahead := own(t, e)
	writing, fetching := claimed(t, e), claimed(t, e)
	testkit.Must(t, writing.item.beginWriting())
	e.batches.mu.Lock()
	e.batches.discard(ahead)
	if e.batches.table[ahead.key] != nil || ahead.buf == nil {
		t.Error("a batch that is being written into must keep its memory until that is done")
	}
	e.batches.mu.Unlock()
	writing.item.endWriting()
	if ahead.buf != nil {
		t.Error("the memory was not given back")
	}
	if err := fetching.item.beginWriting(); !errors.Is(err, errDropped) {
		t.Errorf("a read for a dropped batch may write: %v", err)
	}
	e.batches.itemDone(writing.item, nil, nil)
	e.batches.itemDone(fetching.item, nil, nil)
	if ahead.finished != 0 {
		t.Error("what was done for a dropped batch counts")
	}
}

// TestBeginMakesBatchesAhead: batches that are begun in any order are made once, without an Open,
// and are reported as made once they are.
func TestBeginMakesBatchesAhead(t *testing.T) {
	const n = 80
	ds := openDataset(t, testDir(t, n))
	inBubble(t, ds, func(*Options) {}, func(t *testing.T, e *Engine) {
		keys := []Key{{Batch: 15}, {Batch: 3}, {Epoch: 2, Batch: 11}, {Epoch: 1}}
		for _, k := range keys {
			if e.Begin(k, layout.NPY) {
				t.Errorf("%v is there before it was begun", k)
			}
		}
		synctest.Wait()
		if s := e.Stats().Batches; s.Decoded != 4 || s.Ahead != 4 || s.Streams != 0 || s.Opened != 0 {
			t.Fatalf("%+v", s)
		}
		for _, k := range keys {
			if !e.Begin(k, layout.NPY) || !e.Begin(k, layout.Labels) {
				t.Errorf("%v is not there", k)
			}
			got := read(t, e, k, layout.NPY)
			if w := want(t, e, n, k, 0); !bytes.HasSuffix(got, w) {
				t.Errorf("%v has other bytes", k)
			}
		}
		if s := e.Stats().Batches; s.Stalled != 0 {
			t.Errorf("%d opens waited for what was there", s.Stalled)
		}
		if e.Begin(Key{Batch: 1000}, layout.NPY) || e.Begin(Key{Shard: 7}, layout.NPY) {
			t.Error("what does not exist is there")
		}
	})
}

// TestBeginIsBounded: only so many batches that are begun and never opened are made, only if memory
// is idle, and they are given back when nobody opens them.
func TestBeginIsBounded(t *testing.T) {
	ds := openDataset(t, testDir(t, 200))
	inBubble(t, ds, func(*Options) {}, func(t *testing.T, e *Engine) {
		const mostBegun = 16 // at once
		for i := range 40 {
			e.Begin(Key{Batch: i}, layout.NHWCForm)
		}
		synctest.Wait()
		if s := e.Stats().Batches; s.Decoded != mostBegun || s.Ahead != mostBegun {
			t.Errorf("%+v", s)
		}
		read(t, e, Key{Batch: 5}, layout.NHWCForm) // makes room for another one
		e.Begin(Key{Batch: 39}, layout.NHWCForm)
		synctest.Wait()
		if !e.Begin(Key{Batch: 39}, layout.NHWCForm) {
			t.Error("there was room for another one")
		}
		time.Sleep(3 * defaultIdle)
		synctest.Wait()
		if s := e.Stats(); s.Batches.Ahead != 0 || s.Memory.Batches != 0 {
			t.Errorf("%d batches ahead and %d bytes remain", s.Batches.Ahead, s.Memory.Batches)
		}
	})
}

// TestBeginTakesNothingAway: a batch that does not fit beside those that are open is not made, and
// one that never fits is not tried.
func TestBeginTakesNothingAway(t *testing.T) {
	dir := t.TempDir()
	const n, side = 64, 128
	for i := range n {
		writePPM(t, samplePath(dir, i), side, side, picture(i, side, side))
	}
	ds := openDataset(t, dir)
	three := func(o *Options) { o.PrefetchDepth, o.MemoryLimit = 0, runtimeBytes+200<<10+700<<10 } // room for three batches
	inBubble(t, ds, three, func(t *testing.T, e *Engine) {
		var open []*File
		for i := range 3 {
			f, err := e.Open(t.Context(), Key{Batch: 5 * i}, layout.NHWCForm)
			if err != nil {
				break
			}
			open = append(open, f)
		}
		if len(open) == 0 {
			t.Fatal("nothing fits")
		}
		before := slices.Collect(func(yield func([]byte) bool) {
			for _, f := range open {
				yield(bytes.Clone(f.Bytes()))
			}
		})
		for range 2 {
			for i := range 16 {
				e.Begin(Key{Epoch: 1, Batch: i}, layout.NHWCForm)
			}
			synctest.Wait()
		}
		if s := e.Stats(); s.Memory.Peak > s.Memory.Limit || s.Batches.Ahead > 1 {
			t.Errorf("%d of %d bytes used, %d batches ahead", s.Memory.Peak, s.Memory.Limit, s.Batches.Ahead)
		}
		for i, f := range open {
			if !bytes.Equal(f.Bytes(), before[i]) {
				t.Errorf("open batch %d changed", i)
			}
			f.Close()
		}
	})
	e := start(t, dir, func(o *Options) { o.BatchSize, o.MemoryLimit = 64, runtimeBytes+1<<20 })
	e.Begin(Key{}, layout.NHWCForm)
	if s := e.Stats().Batches; s.Making != 0 || s.Ahead != 0 {
		t.Errorf("a batch that never fits is tried: %+v", s)
	}
}

// TestShardsSayWhereTheyAreRead: the statistics have the epoch of each shard's latest reader. A
// reader at random does not count.
func TestShardsSayWhereTheyAreRead(t *testing.T) {
	e := start(t, testDir(t, 80), func(o *Options) { o.Shards = 3 })
	if s := e.Stats().Shards; s == nil || len(s) != 0 {
		t.Errorf("nothing is read: %v", s)
	}
	read(t, e, Key{Shard: 1, Epoch: 1}, layout.NHWCForm)
	read(t, e, Key{Shard: 0, Epoch: 2}, layout.NHWCForm)
	read(t, e, Key{Shard: 0, Epoch: 2, Batch: 1}, layout.NHWCForm)
	read(t, e, Key{Shard: 2, Epoch: 1, Batch: 3}, layout.NHWCForm) // alone
	if got := e.Stats().Shards; !slices.Equal(got, []ShardStats{{0, 2, 1}, {1, 1, 0}}) {
		t.Errorf("read: %v", got)
	}
	f := open(t, e, Key{Shard: 1, Epoch: 2}, layout.NHWCForm)
	read(t, e, Key{Shard: 1, Batch: 5}, layout.NHWCForm) // a reader that goes back within reach is not a new one
	read(t, e, Key{Shard: 1}, layout.NHWCForm)
	f.Close() // late, by an earlier reader
	if got := e.Stats().Shards; !slices.Equal(got, []ShardStats{{0, 2, 1}, {1, 0, 0}}) {
		t.Errorf("read: %v", got)
	}
}
