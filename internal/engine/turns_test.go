package engine

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/batchfs/batchfs/cache"
	"github.com/batchfs/batchfs/internal/store"
	"github.com/batchfs/batchfs/layout"
)

// exhaust lowers the memory limit to what is in use, so that an Open has to wait until
// memory comes back.
func exhaust(e *Engine) {
	f := e.batches.flow
	for !e.locked(func() bool { return f.loading == 0 && f.resting == len(f.drawers) }) {
		time.Sleep(time.Millisecond)
	}
	e.locked(func() bool { f.trim(); return true })
	for e.memory.freeRead() || e.memory.pool.Trim() > 0 || e.caches.cache != nil && e.caches.cache.Trim(1<<40) > 0 {
	}
	e.memory.ledger.mu.Lock()
	e.memory.ledger.limit = e.memory.ledger.sum + e.memory.ledger.load + e.memory.ledger.drawing
	e.memory.ledger.mu.Unlock()
}

// alone configures a single worker and no prefetching.
func alone(o *Options) { o.PrefetchDepth, o.Workers = 0, 1 }

// TestOpensTakeTurns: with room for one batch, Opens are served in the order in which they
// came, and none fails.
func TestOpensTakeTurns(t *testing.T) {
	e := start(t, testDir(t, 64), alone)
	held := open(t, e, Key{}, layout.NHWCForm)
	exhaust(e)
	var order []int
	var mu sync.Mutex
	var all sync.WaitGroup
	for i := 1; i <= 5; i++ {
		k := Key{Batch: 2 * i}
		all.Go(func() {
			f, err := e.Open(context.Background(), k, layout.NHWCForm)
			if err != nil {
				t.Errorf("%s: %v", k, err)
				return
			}
			mu.Lock()
			order = append(order, i)
			mu.Unlock()
			f.Close()
		})
		eventually(t, "it waits", func() bool {
			return e.locked(func() bool { b := e.batches.table[k]; return b != nil && b.waiting == 1 })
		})
	}
	eventually(t, "the first is refused", func() bool { return e.locked(func() bool { return e.batches.table[Key{Batch: 2}].refused() }) })
	held.Close()
	all.Wait()
	for i, n := range order {
		if n != i+1 {
			t.Fatalf("opens came back in the order %v", order)
		}
	}
}

// TestFormOfABatchThatWaits: a batch that was laid out keeps its form while it waits for memory,
// even if it is opened in another one meanwhile.
func TestFormOfABatchThatWaits(t *testing.T) {
	const n = 64
	e := start(t, testDir(t, n), alone)
	held := open(t, e, Key{}, layout.NHWCForm)
	exhaust(e)
	k := Key{Batch: 5}
	waits := func(readers int) func() bool {
		return func() bool {
			return e.locked(func() bool { b := e.batches.table[k]; return b != nil && b.waiting == readers && b.refused() })
		}
	}
	files := make(chan *File, 2)
	for i, form := range []layout.Form{layout.NHWCForm, layout.NCHWForm} {
		go func() {
			f, err := e.Open(context.Background(), k, form)
			if err != nil {
				t.Error(err)
			}
			files <- f
		}()
		eventually(t, "it waits for memory", waits(i+1))
	}
	e.SetMemoryLimit(1 << 40)
	held.Close()
	first, second := <-files, <-files
	checkForms(t, e, k, want(t, e, n, k, 0))
	first.Close()
	second.Close()
}

// TestMemoryWaitEnds: the wait ends with ENOMEM and a log line, not before its time.
func TestMemoryWaitEnds(t *testing.T) {
	ds := openDataset(t, testDir(t, 64))
	var log bytes.Buffer
	inBubble(t, ds, func(o *Options) {
		alone(o)
		o.MemoryWait, o.Logger = 10*time.Second, slog.New(slog.NewTextHandler(lockedWriter{new(sync.Mutex), &log}, nil))
		o.Remedy = func(err error) string { return fmt.Sprint("more memory: ", errors.Is(err, ErrNoMemory)) }
	}, func(t *testing.T, e *Engine) {
		held := open(t, e, Key{}, layout.NHWCForm)
		synctest.Wait() // the worker has given back what it took for the sample
		exhaust(e)
		began := time.Now()
		_, err := e.Open(context.Background(), Key{Batch: 5}, layout.NHWCForm)
		if took := time.Since(began); !errors.Is(err, ErrNoMemory) || took < 10*time.Second || took > 11*time.Second {
			t.Errorf("after %v: %v", took, err)
		}
		if s := log.String(); !strings.Contains(s, "batch-00005") || !strings.Contains(s, `hint="more memory: true"`) {
			t.Errorf("the log says %q", s)
		}
		// A wait can be interrupted. Its request is given up after abandonedFor, on the bubble's
		// clock, and nothing is left.
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		if _, err := e.Open(ctx, Key{Batch: 6}, layout.NHWCForm); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("an interrupted wait ends with %v", err)
		}
		time.Sleep(2 * abandonedFor)
		synctest.Wait()
		if len(e.batches.table) != 1 || len(e.batches.schedule.in[wanted]) != 0 {
			t.Errorf("%d batches, %d in the queue", len(e.batches.table), len(e.batches.schedule.in[wanted]))
		}
		held.Close()
	})
}

// TestMemoryWaitsForTheStore: an open that waits for the memory of a batch whose store is away
// waits until the store is back.
func TestMemoryWaitsForTheStore(t *testing.T) {
	d := newFar(t)
	ds := d.open(t, 0, func(o *store.Options) { o.Wait = 0 })
	const wait = 300 * time.Millisecond
	e := d.engine(t, ds, 0, func(o *Options) { o.MemoryWait, o.CachePolicy = wait, cache.None })
	read(t, e, Key{}, layout.NHWCForm)
	exhaust(e)
	_, sum := e.memory.ledger.usage(useBatches)
	size := e.catalog.Size(Key{}, layout.NHWCForm)
	e.memory.ledger.setLimit(sum + size/2 + e.memory.ledger.load + e.memory.ledger.drawing)
	d.away.Store(math.MaxInt32)
	began := time.Now()
	open := func(b int) chan error {
		done := make(chan error, 1)
		go func() {
			done <- opens(e, Key{Batch: b}, layout.NHWCForm)
		}()
		return done
	}
	first := open(1)
	eventually(t, "the first batch has its memory", func() bool {
		return e.locked(func() bool { b := e.batches.table[Key{Batch: 1}]; return b != nil && b.inFlight > 0 })
	})
	second := open(2)
	eventually(t, "the second one has none", func() bool {
		return e.locked(func() bool {
			b := e.batches.table[Key{Batch: 2}]
			return b != nil && !e.batches.schedule.refusedSince(b).IsZero()
		})
	})
	time.AfterFunc(2*wait, func() { d.away.Store(0) })
	for _, done := range []chan error{first, second} {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	if took := time.Since(began); took < 2*wait {
		t.Errorf("the store was away for %v", took)
	}
}

// TestAbandonedOpensAreCancelled: batches that no Open waits for any more are not made.
func TestAbandonedOpensAreCancelled(t *testing.T) {
	const opens = 40
	gate := make(chan struct{})
	e := startFaulty(t, testDir(t, 4*2*opens), func(int64) error { <-gate; return nil }, func(o *Options) { o.PrefetchDepth = 2 })
	ctx, cancel := context.WithCancel(context.Background())
	var all sync.WaitGroup
	for i := range opens {
		k := Key{Batch: 2 * i}
		all.Go(func() {
			if _, err := e.Open(ctx, k, layout.NHWCForm); !errors.Is(err, context.Canceled) {
				t.Errorf("%s: %v", k, err)
			}
		})
	}
	eventually(t, "all wait", func() bool { return e.Stats().Batches.Waiting == opens })
	cancel()
	all.Wait()
	eventually(t, "all are given up but what is read ahead", func() bool {
		return e.locked(func() bool {
			n := 0
			for _, b := range e.batches.table {
				if b.opened {
					n++
				}
			}
			return n == 0
		})
	})
	close(gate)
	read(t, e, Key{Epoch: 1}, layout.NHWCForm)
	if made := e.Stats().Batches.Decoded; made > 1+int64(e.opts.PrefetchDepth)*16 {
		t.Errorf("%d batches were made, of which one was read", made)
	}
}

// TestKeptBatchesGiveWay: kept batches give way to prefetching and to the cache.
func TestKeptBatchesGiveWay(t *testing.T) {
	e := start(t, testDir(t, 64), alone)
	for i := range 3 {
		read(t, e, Key{Batch: i}, layout.NHWCForm)
	}
	kept := func() (n int) {
		e.locked(func() bool { n = len(e.batches.table); return true })
		return n
	}
	if kept() < 2 {
		t.Fatalf("%d batches are kept", kept())
	}
	e.memory.pool.Trim()
	_, sum := e.memory.ledger.usage(useBatches)
	e.memory.ledger.setLimit(sum + e.memory.ledger.load + e.memory.ledger.drawing)
	if b := (cacheBudget{e.memory, useCache}); b.Reserve(1) {
		b.Release(1)
	} else {
		t.Error("a batch that was read does not give way to the cache")
	}
	if kept() != 1 {
		t.Errorf("%d batches are kept, want the newest", kept())
	}
}

// TestPrefetchingDoesNotTakeFromTheCache: prefetching takes no memory from the cache, but a
// batch that an Open waits for does.
func TestPrefetchingDoesNotTakeFromTheCache(t *testing.T) {
	dir := testDir(t, 64)
	e := start(t, dir, func(o *Options) {
		o.Anonymous, o.CachePolicy, o.CacheSize, o.PrefetchDepth = true, cache.Static, 1<<20, 0
	})
	for i := range 4 {
		read(t, e, Key{Batch: i}, layout.NHWCForm)
	}
	held := e.caches.cache.Stats().Real
	if held == 0 {
		t.Fatal("nothing is cached")
	}
	b := &batch{key: Key{Batch: 9}}
	for {
		before := e.memory.ledger.returns()
		if !e.memory.reclaim(b, 1<<30, before) {
			break
		}
	}
	if now := e.caches.cache.Stats().Real; now != held {
		t.Errorf("prefetching took %d bytes from the cache", held-now)
	}
	b.refs = 1
	if !e.memory.reclaim(b, 1<<30, e.memory.ledger.returns()) || e.caches.cache.Stats().Real != 0 {
		t.Errorf("the cache keeps %d bytes from a batch that somebody waits for", e.caches.cache.Stats().Real)
	}
}

// TestSetMemoryLimit: unused memory is freed, open batches stay, and Opens under the lower
// limit wait until it is raised again.
func TestSetMemoryLimit(t *testing.T) {
	e := start(t, testDir(t, 64), func(o *Options) {
		o.CachePolicy, o.CacheSize, o.PrefetchDepth = cache.Static, 1<<20, 1
	})
	for i := range 5 {
		read(t, e, Key{Batch: i}, layout.NHWCForm)
	}
	held := open(t, e, Key{Batch: 9}, layout.NHWCForm)
	e.SetMemoryLimit(1)
	if e.caches.cache.Stats().Real != 0 || len(held.Bytes()) == 0 {
		t.Errorf("the cache holds %d bytes, the open file %d", e.caches.cache.Stats().Real, len(held.Bytes()))
	}
	var opened atomic.Bool
	done := make(chan struct{})
	go func() {
		defer close(done)
		f, err := e.Open(context.Background(), Key{Batch: 12}, layout.NHWCForm)
		if err != nil {
			t.Error(err)
			return
		}
		opened.Store(true)
		f.Close()
	}()
	eventually(t, "it waits for memory", func() bool {
		return e.locked(func() bool { b := e.batches.table[Key{Batch: 12}]; return b != nil && b.refused() })
	})
	if opened.Load() {
		t.Error("opened beyond the limit")
	}
	e.SetMemoryLimit(1 << 40)
	<-done
	if limit := e.Stats().Memory.Limit; limit != e.opts.MemoryLimit {
		t.Errorf("the limit is %d, the option %d", limit, e.opts.MemoryLimit)
	}
	held.Close()
}

// TestClosingABatchMakesRoomAtOnce: closing a batch wakes a waiting Open without polling.
func TestClosingABatchMakesRoomAtOnce(t *testing.T) {
	ds := openDataset(t, testDir(t, 64))
	inBubble(t, ds, alone, func(t *testing.T, e *Engine) {
		held := open(t, e, Key{}, layout.NHWCForm)
		synctest.Wait()
		exhaust(e)
		var closed time.Time
		time.AfterFunc(1017*time.Millisecond, func() { closed = time.Now(); held.Close() })
		f := open(t, e, Key{Batch: 1}, layout.NHWCForm)
		if late := time.Since(closed); late > time.Millisecond {
			t.Errorf("%v passed until it was noticed", late)
		}
		f.Close()
	})
}

// TestSpareMemoryGivesWay: memory that loads and drawers keep for the next sample gives way to a
// batch that somebody waits for.
func TestSpareMemoryGivesWay(t *testing.T) {
	const n, size = 8, 1000
	dir := t.TempDir()
	for i := range n {
		writePPM(t, samplePath(dir, i), size, size, picture(i, size, size))
	}
	e := start(t, dir, func(o *Options) {
		o.Anonymous, o.PrefetchDepth, o.Workers, o.MemoryWait = true, 0, 4, 2*time.Second
	})
	scratch := func() int64 { n, _ := e.memory.ledger.usage(useScratch); return n }
	read(t, e, Key{}, layout.NHWCForm)
	if scratch() < 3*size*size {
		t.Fatalf("%d bytes are kept", scratch())
	}
	eventually(t, "drawers rest", func() bool { return e.locked(func() bool { f := e.batches.flow; return f.resting == len(f.drawers) }) })
	e.memory.giveBackIdle(e.memory.idle.given.Load())
	_, sum := e.memory.ledger.usage(useBatches)
	e.memory.ledger.setLimit(sum - scratch() + e.catalog.Size(Key{}, layout.NHWCForm) + 8*size*size) // a batch, and a sample
	read(t, e, Key{Batch: 1}, layout.NHWCForm)
}
