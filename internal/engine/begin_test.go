package engine

import (
	"bytes"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/batchfs/batchfs/layout"
)

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
