package engine

import (
	"bytes"
	"errors"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/batchfs/batchfs/cache"
	"github.com/batchfs/batchfs/internal/catalog"
	"github.com/batchfs/batchfs/internal/keep"
	"github.com/batchfs/batchfs/internal/testkit"
	"github.com/batchfs/batchfs/layout"
	"github.com/batchfs/batchfs/shard"
)

// settled waits until every requested plan has been computed.
func (k *planner) settled() {
	for end := time.Now().Add(patience); k != nil; {
		if time.Now().After(end) {
			panic("plans that were requested are not computed")
		}
		k.mu.Lock()
		wanted, w := len(k.epochs)-k.plans, k.working
		k.mu.Unlock()
		switch {
		case wanted == 0:
			return
		case w != nil:
			<-w.done
		default:
			runtime.Gosched()
		}
	}
}

// testPlanner returns a planner of n samples that is not started, and closes it when the test
// ends.
func testPlanner(t *testing.T, n int64, l *ledger) *planner {
	t.Helper()
	order := shard.Config{Samples: n, Shards: 1, BatchSize: 32, Shuffle: true, PadLastBatch: true}
	plan, err := shard.New(order)
	testkit.Must(t, err)
	o := Options{Options: catalog.Options{Config: order, Epochs: 1000}}.withDefaults()
	c := Budget{&catalog.Catalog{Plan: plan, Options: o.Options}, &o}
	k := newPlanner(c, shares{memory: 0.3}, l, func() bool { return false })
	k.pause = time.Millisecond
	t.Cleanup(func() {
		k.close()
		if used, _ := l.usage(useIndex); used != 0 {
			t.Errorf("%d bytes are still charged after close", used)
		}
		if l.peak > l.limit {
			t.Errorf("%d bytes were charged, of %d", l.peak, l.limit)
		}
	})
	return k
}

// watched records which plans a planner computes, and how many at a time.
type watched struct {
	mu        sync.Mutex
	epochs    []int
	now, most int
}

func (k *planner) watch() *watched {
	w, choose := &watched{}, k.choose
	k.choose = func(epoch int, space keep.Workspace) (*plan, error) {
		w.mu.Lock()
		w.epochs = append(w.epochs, epoch)
		w.now++
		w.most = max(w.most, w.now)
		w.mu.Unlock()
		defer func() {
			w.mu.Lock()
			w.now--
			w.mu.Unlock()
		}()
		return choose(epoch, space)
	}
	return w
}

func (w *watched) computed() []int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.epochs)
}

// TestOpensNeverWaitForAPlan: while planning makes no progress, everything can be read, but
// nothing is kept. Once a plan is computed, it is followed.
func TestOpensNeverWaitForAPlan(t *testing.T) {
	const n = 64
	dir := evenDir(t, n, 16)
	want := readEpochs(t, start(t, dir, caching(cache.None, 0)), 0, 2)
	e := built(t, dir, caching(cache.Constant, 1<<20), func(o *Options) { o.PrefetchDepth = 0 })
	gate, choose := make(chan struct{}), e.caches.planner.choose
	e.caches.planner.choose = func(epoch int, w keep.Workspace) (*plan, error) {
		<-gate
		return choose(epoch, w)
	}
	e.start()
	var got [][]byte
	for epoch := range 2 {
		for batch := range e.catalog.Plan.Batches(0, epoch) {
			got = append(got, read(t, e, Key{Epoch: epoch, Batch: batch}, layout.NHWCForm))
		}
	}
	if !slices.EqualFunc(got, want, bytes.Equal) {
		t.Error("the bytes of a batch depend on a plan of the cache")
	}
	s := e.Stats()
	for _, epoch := range s.Epochs {
		if epoch.Kept != 0 || epoch.NotKept != 0 || epoch.Unplanned != n || epoch.Misses != n {
			t.Errorf("without a plan: %+v", epoch)
		}
	}
	eventually(t, "one of three plans is being computed", func() bool { return e.Stats().Plans.Computing == 1 })
	if p := e.Stats().Plans; p.Held != 0 || p.Wanted != 3 {
		t.Errorf("while epochs 0 to 2 are wanted, plans are %+v", p)
	}
	close(gate)
	e.caches.planner.settled()
	if p := e.Stats().Plans; p.Held != 3 || p.Computing != 0 || p.Wanted != 0 || p.Bytes != 3*2*keep.Size(e.catalog.Plan) {
		t.Errorf("when they are there, plans are %+v", p)
	}
	readEpochs(t, e, 2, 3)
	if last := e.Stats().Epochs[2]; last.Kept == 0 || last.Unplanned != 0 {
		t.Errorf("with a plan: %+v", last)
	}
}

// TestPlansAreShared: concurrent readers of many epochs share plans, each of which is
// computed once, one at a time.
func TestPlansAreShared(t *testing.T) {
	const n, readers, rounds = 2000, 8, 300
	l := &ledger{limit: 1 << 30}
	k := testPlanner(t, n, l)
	w := k.watch()
	k.start()
	var wait sync.WaitGroup
	for r := range readers {
		wait.Go(func() {
			for i := range rounds {
				k.Keep(10*r, int64(i))
				if i == rounds/2 {
					k.settled()
				}
			}
		})
	}
	wait.Wait()
	k.settled()
	for r := range readers {
		if _, known := k.Keep(10*r, 0); !known {
			t.Errorf("nothing is known of epoch %d", 10*r)
		}
		if _, known := k.Keep(10*r+1, 0); !known {
			t.Errorf("nothing is known of epoch %d, though the one before it is read", 10*r+1)
		}
	}
	k.settled()
	epochs := w.computed()
	slices.Sort(epochs)
	if len(slices.Compact(slices.Clone(epochs))) != len(epochs) || w.most != 1 {
		t.Errorf("computed %v, %d at a time", epochs, w.most)
	}
	if used, _ := l.usage(useIndex); used != int64(len(epochs))*k.bytes {
		t.Errorf("%d plans of %d bytes are charged %d", len(epochs), k.bytes, used)
	}
}

// TestPlansDoNotThrash: if more epochs are read than plans can be held, the held plans stay and the
// other epochs have none. They get their plans once the first epochs are no longer read.
func TestPlansDoNotThrash(t *testing.T) {
	const n, held = 1000, 3
	k := testPlanner(t, n, &ledger{limit: 1 << 30})
	k.most = held
	w := k.watch()
	k.start()
	k.settled()
	for i := range 100 {
		for r := range 8 {
			k.Keep(10*r, int64(i))
		}
		eventually(t, "as many plans are held as may be", func() bool { return k.stats().Held >= held })
	}
	if got := w.computed(); len(got) != held {
		t.Errorf("computed %v for %d that are held", got, held)
	}
	known := 0
	for r := range 8 {
		if _, there := k.Keep(10*r, 0); there {
			known++
		}
	}
	if known == 0 || known > held {
		t.Errorf("%d epochs are known of", known)
	}
	eventually(t, "the only reader left has a plan", func() bool { _, there := k.Keep(500, 0); return there })
}

// TestPlansAreForgotten: a reader that moves from epoch to epoch leaves old plans behind
// and always finds the plan it needs.
func TestPlansAreForgotten(t *testing.T) {
	const n = 1000
	for _, most := range []int{leastPlans, 5} {
		l := &ledger{limit: 1 << 30}
		k := testPlanner(t, n, l)
		k.most = most
		w := k.watch()
		k.start()
		for epoch := range 20 {
			k.settled()
			if used, _ := l.usage(useIndex); used > int64(most)*k.bytes {
				t.Errorf("%d bytes are charged for at most %d plans of %d", used, most, k.bytes)
			}
			for id := range int64(n) {
				if _, known := k.Keep(epoch, id); !known {
					t.Fatalf("nothing is known of epoch %d", epoch)
				}
			}
		}
		k.settled()
		if got := w.computed(); len(got) != 21 {
			t.Errorf("computed %v", got)
		}
		if held := k.stats().Held; held > int64(most) {
			t.Errorf("%d plans are held", held)
		}
	}
}

// stopper is a Workspace that blocks at a given step until it is ended.
type stopper struct {
	*workspace
	at    int64
	steps atomic.Int64
	there chan struct{}
}

func (s *stopper) Err() error {
	if s.steps.Add(1) == s.at {
		close(s.there)
		for s.ctx.Err() == nil {
			runtime.Gosched()
		}
	}
	return s.workspace.Err()
}

// stopAt makes a planner's first plan block at a step. The stopper's there channel is closed
// when the plan gets to that step.
func (k *planner) stopAt(step int64) *stopper {
	s, choose := &stopper{at: step, there: make(chan struct{})}, k.choose
	var first sync.Once
	k.choose = func(epoch int, w keep.Workspace) (*plan, error) {
		first.Do(func() { s.workspace, _ = w.(*workspace); w = s })
		return choose(epoch, w)
	}
	return s
}

// TestCloseEndsPlanning: closing ends a plan at its next step, at any stage, and frees all
// of its memory.
func TestCloseEndsPlanning(t *testing.T) {
	for _, step := range []int64{2, 40, 700, 1500} {
		l := &ledger{limit: 1 << 30}
		k := testPlanner(t, 300_000, l)
		s := k.stopAt(step)
		k.start()
		<-s.there
		if used, _ := l.usage(useIndex); step > 2 && used < 1<<20 {
			t.Errorf("at step %d only %d bytes are charged", step, used)
		}
		k.close()
		if got := s.steps.Load(); got != step {
			t.Errorf("closed at step %d, planning went on to step %d", step, got)
		}
		if used, sum := l.usage(useIndex); used != 0 || sum != 0 {
			t.Errorf("closed at step %d, %d bytes are still charged", step, used)
		}
		if _, known := k.Keep(0, 0); known {
			t.Error("an ended plan is known")
		}
	}
}

// TestPlanningGivesWay: memory taken by planning is available at once to a batch that needs
// it, and the plan is computed later.
func TestPlanningGivesWay(t *testing.T) {
	l := &ledger{limit: 1 << 30}
	k := testPlanner(t, 300_000, l)
	s := k.stopAt(700)
	k.start()
	<-s.there
	used, _ := l.usage(useIndex)
	if freed := k.giveWay(); freed != used {
		t.Errorf("%d bytes were freed, of %d", freed, used)
	}
	if _, known := k.Keep(0, 0); known {
		t.Error("a plan that gave way is known")
	}
	k.settled()
	if _, known := k.Keep(0, 0); !known {
		t.Error("a plan that gave way was not made later")
	}
	var none *planner
	if k.giveWay() != 0 || none.giveWay() != 0 {
		t.Error("what is not there gives way")
	}
}

// TestPlanningIsRefused: without enough memory no plan is computed and the limit holds.
// Once memory has come back, the plan is computed.
func TestPlanningIsRefused(t *testing.T) {
	const limit = 64 << 20
	for _, late := range []bool{false, true} { // before planning begins, or during it
		l := &ledger{limit: limit}
		k := testPlanner(t, 200_000, l)
		w := k.watch()
		taken := limit - k.needs/2 + 1
		if late {
			taken--
		}
		if !l.reserve(useBatches, taken) {
			t.Fatal("refused at once")
		}
		k.start()
		eventually(t, "it says that there is no memory", func() bool {
			if _, known := k.Keep(0, 0); known {
				t.Fatalf("a plan that takes about %d bytes was made in %d", k.needs, limit-taken)
			}
			k.mu.Lock()
			defer k.mu.Unlock()
			return k.epochs[0].logged
		})
		if tried := len(w.computed()) > 0; tried != late {
			t.Errorf("late %t: tried %t", late, tried)
		}
		l.release(useBatches, taken)
		k.settled()
		if _, known := k.Keep(0, 0); !known {
			t.Error("when memory came back, no plan was made")
		}
	}
}

// TestOpensComeBeforePlanning: an Open takes the memory that planning holds.
func TestOpensComeBeforePlanning(t *testing.T) {
	const limit = 64 << 20
	e := built(t, evenDir(t, 64, 64), caching(cache.Constant, 1<<20), func(o *Options) { o.PrefetchDepth, o.MemoryLimit = 0, limit })
	e.memory.pool.Trim()
	full, choose := make(chan struct{}), e.caches.planner.choose
	var first sync.Once
	e.caches.planner.choose = func(epoch int, w keep.Workspace) (k *plan, err error) {
		first.Do(func() {
			for n := int64(32 << 20); n > 1<<10; {
				memory, refused := w.Take(n)
				if refused != nil {
					n /= 2
					continue
				}
				defer w.Give(memory)
			}
			close(full)
			for err = w.Err(); err == nil; err = w.Err() {
				runtime.Gosched()
			}
		})
		if err != nil {
			return nil, err
		}
		return choose(epoch, w)
	}
	e.start()
	<-full
	open(t, e, Key{}, layout.NHWCForm).Close()
	if peak := e.Stats().Memory.Peak; peak > limit {
		t.Errorf("%d bytes were charged, of %d", peak, limit)
	}
}

// TestPlanningRestsInTheKernelToo: planning also looks for waiting Opens while the kernel provides
// its memory. If it ends then, all of its memory is given back.
func TestPlanningRestsInTheKernelToo(t *testing.T) {
	l := newLedger(1 << 30)
	rests, end := 0, 0
	var w *workspace
	busy := func() bool {
		if rests++; rests == end {
			w.end(errGaveWay)
		}
		return false
	}
	w = newWorkspace(&planner{ledger: l, busy: busy, planning: planning{ctx: t.Context()}})
	memory, err := w.Take(256 << 20)
	testkit.Must(t, err)
	taking := rests
	if taking == 0 || slices.ContainsFunc(memory[:1<<20], func(b byte) bool { return b != 0 }) {
		t.Errorf("it looked %d times while 256 MiB were provided, or they are not zero", taking)
	}
	end = rests + 1 // while memory is given back, nothing fails
	w.Give(memory)
	if _, sum := l.usage(useIndex); sum != 0 {
		t.Errorf("%d bytes were not given back", sum)
	}
	if rests == taking {
		t.Error("it never looked while the memory was given back")
	}
	w = newWorkspace(&planner{ledger: l, busy: busy, planning: planning{ctx: t.Context()}})
	end = rests + 1
	if _, err := w.Take(256 << 20); !errors.Is(err, errGaveWay) {
		t.Errorf("ended while taking memory: %v", err)
	}
	if _, sum := l.usage(useIndex); sum != 0 {
		t.Errorf("%d bytes were not given back", sum)
	}
}
