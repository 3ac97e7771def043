package engine

import (
	"errors"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/batchfs/batchfs/cache"
	"github.com/batchfs/batchfs/internal/testkit"
	"github.com/batchfs/batchfs/layout"
)

// TestWhatGivesWayFirst checks the order in which memory gives way for a batch that an Open
// waits for, until nothing more may give way.
func TestWhatGivesWayFirst(t *testing.T) {
	e := unstarted(t, 160, func(o *Options) { o.PrefetchDepth, o.CachePolicy, o.CacheSize = 3, cache.Static, 1<<20 })
	e.memory.pool.Trim()
	const size = 1 << 16
	holding := func(index int, b *batch) *batch {
		buf, err := e.memory.pool.Get(size)
		testkit.Must(t, err)
		b.key, b.buf, b.done = Key{Batch: index}, buf, make(chan struct{})
		e.batches.table[b.key] = b
		return b
	}
	names := map[string]*batch{
		"read long ago": holding(1, &batch{state: ready, asked: asked{opened: true, openedAs: 1}}),
		"read last":     holding(2, &batch{state: ready, asked: asked{opened: true, openedAs: 2}}),
	}
	for index := 1; index <= 2; index++ {
		e.batches.streams.Follow(Key{Batch: index}, layout.NHWCForm)
	}
	e.batches.discard(e.batches.table[Key{Batch: 4}])
	for index, name := range map[int]string{3: "nearly to be read", 5: "far from its reader"} {
		b := e.batches.table[Key{Batch: index}]
		e.batches.schedule.move(b, ready)
		names[name] = holding(index, b)
	}
	wantedLater := holding(20, &batch{state: making, asked: asked{refs: 1, waiting: 1, askedAs: 9}})
	wantedBefore := holding(30, &batch{state: making, asked: asked{refs: 1, waiting: 1, askedAs: 3}})
	isOpen := holding(31, &batch{state: ready, asked: asked{refs: 1, opened: true, openedAs: 1}})
	e.caches.cache.Put(0, 1, cache.Stamp{Size: 1 << 15, ModTime: 1}, make([]byte, 1<<15))
	idle, err := e.memory.pool.Get(size)
	testkit.Must(t, err)
	idle.Release()
	if e.caches.cache.Stats().Real == 0 || e.batchBytes() < 8*size {
		t.Fatalf("nothing is cached, or nothing is idle: %d, %d", e.caches.cache.Stats().Real, e.batchBytes())
	}

	spare := newLoad(e.batches)
	spare.item.batch = &batch{}
	if _, err := spare.input.growFor(spare.item.batch, 1<<15); err != nil {
		t.Fatal(err)
	}
	e.flow.recycle(spare)

	var order []string
	gaveWay := func(name string, gone bool) {
		if gone && !slices.Contains(order, name) {
			order = append(order, name)
		}
	}
	b := &batch{key: Key{Batch: 35}, asked: asked{refs: 1, waiting: 1, askedAs: 5}}
	for e.memory.reclaim(b, 1<<30, e.memory.ledger.returns()) {
		gaveWay("idle memory", e.batchBytes() <= 7*size)
		gaveWay("the cache", e.caches.cache.Stats().Real == 0)
		gaveWay("what is kept for the next sample", spare.input.charged == 0)
		for name, v := range names {
			gaveWay(name, v.buf == nil)
		}
	}
	want := []string{"idle memory", "read long ago", "the cache", "read last", "far from its reader", "nearly to be read", "what is kept for the next sample"}
	if !slices.Equal(order, want) {
		t.Errorf("what gave way, in order: %q, want %q", order, want)
	}
	if wantedBefore.buf == nil || wantedLater.buf == nil || isOpen.buf == nil {
		t.Error("what somebody waits for, or has open, gave way")
	}
}

// TestReserveTakesIdleMemory: there is idle memory before the first reader comes. The reserve stays
// within the limit as long as there is anything to give.
func TestReserveTakesIdleMemory(t *testing.T) {
	e := unstarted(t, 16)
	e.memory.pool.Trim()
	_, sum := e.memory.ledger.usage(useBatches)
	e.memory.ledger.setLimit(sum + 1<<20 + e.memory.ledger.load + e.memory.ledger.drawing)
	idle, err := e.memory.pool.Get(1 << 20)
	testkit.Must(t, err)
	idle.Release()
	e.Reserve(1 << 19)
	if excess := e.memory.ledger.excess(); excess > 0 || e.memory.ledger.peak > e.memory.ledger.limit {
		t.Errorf("%d bytes more than the limit are charged, %d at most", excess, e.memory.ledger.peak-e.memory.ledger.limit)
	}
	e.Reserve(1 << 20) // nothing can give way to this
	if excess := e.memory.ledger.excess(); excess != 1<<19-e.memory.ledger.load-e.memory.ledger.drawing {
		t.Errorf("%d bytes more than the limit are charged", excess)
	}
}

// TestCacheWithoutRoom: under a memory limit that leaves no room even for the tables of the
// cache, an engine starts without one.
func TestCacheWithoutRoom(t *testing.T) {
	for _, p := range []cache.Policy{cache.Constant, cache.Static, cache.TinyLFU} {
		o := testOptions()
		o.MemoryLimit, o.CacheSize, o.CachePolicy = runtimeBytes+30<<10, 4<<20, p
		e, err := New(openDataset(t, testDir(t, 64)), o)
		if err != nil {
			t.Fatalf("%v: %v", p, err)
		}
		if err := e.Close(); err != nil {
			t.Errorf("%v: %v", p, err)
		}
	}
}

// TestAnotherFormWithRoomForOne: a batch that nothing holds gives way to itself in another
// form, if there can never be room for both.
func TestAnotherFormWithRoomForOne(t *testing.T) {
	const size = 8 * 256 * 256 * 3
	dir := t.TempDir()
	for i := range 16 {
		writePPM(t, samplePath(dir, i), 256, 256, make([]byte, 256*256*3))
	}
	e := start(t, dir, func(o *Options) {
		o.BatchSize, o.PrefetchDepth, o.Workers, o.MemoryWait = 8, 0, 1, time.Hour
		o.MemoryLimit = runtimeBytes + size*7/4
	})
	for _, form := range []layout.Form{layout.NHWCForm, layout.NPY, layout.NHWCForm} {
		open(t, e, Key{}, form).Close()
	}
}

// TestCopiesHoldNothingUp: copies in other forms have batch workers of their own.
func TestCopiesHoldNothingUp(t *testing.T) {
	e := unstarted(t, 16)
	all := e.batches
	all.mu.Lock()
	defer all.mu.Unlock()
	source, made := &batch{state: ready}, &batch{key: Key{Batch: 1}, asked: asked{refs: 1, waiting: 1, askedAs: 2}}
	copied := &batch{copying: copying{source: source}, asked: asked{refs: 1, waiting: 1, askedAs: 1}}
	all.schedule.in[wanted] = []*batch{copied, made}
	if b := all.schedule.nextToLayOut(toMake); b != made {
		t.Error("a copy holds up a batch")
	}
	if b := all.schedule.nextToLayOut(toCopy); b != copied {
		t.Error("the copy is not laid out")
	}
	all.schedule.in[wanted] = nil
}

// TestKernelRefusesAfterAll: if the kernel refuses memory, everything idle goes back to it before a
// batch or a load fails. Nothing stays charged.
func TestKernelRefusesAfterAll(t *testing.T) {
	const tooMuch = 1 << 50 // more than a process can address
	e := start(t, testDir(t, 4), func(o *Options) {
		o.MemoryLimit, o.PrefetchDepth = 1<<60, 0
		o.Anonymous = true // a tmpfs would not refuse before there is no memory left
	})
	l := newLoad(e.batches)
	l.item.batch = &batch{}
	defer l.input.giveBack()
	for what, ask := range map[string]func() error{
		"a batch": func() error { _, err := e.memory.buffer(&batch{}, tooMuch); return err },
		"a load":  func() error { _, err := l.input.growFor(l.item.batch, tooMuch); l.input.chargeActual(); return err },
	} {
		read(t, e, Key{}, layout.NHWCForm)
		if e.batchBytes() == 0 {
			t.Fatal("nothing is idle")
		}
		if err := ask(); !errors.Is(err, ErrNoMemory) {
			t.Errorf("%s: %v", what, err)
		}
		if _, used := e.memory.ledger.usage(useScratch); e.batchBytes() != 0 || l.input.charged != 0 || used >= tooMuch {
			t.Errorf("%s: %d bytes are idle, %d charged to the load, %d in all", what, e.batchBytes(), l.input.charged, used)
		}
	}
}

// TestPresize: the buffers of one stream exist at the start; if they are large, one or none.
func TestPresize(t *testing.T) {
	for _, c := range []struct{ hint, limit, want int64 }{
		{0, 256 << 20, 4 * int64(os.Getpagesize())}, // the size in the index is less than a page
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
