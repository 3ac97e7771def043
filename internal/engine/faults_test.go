package engine

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/batchfs/batchfs/decode"
	"github.com/batchfs/batchfs/internal/archive"
	"github.com/batchfs/batchfs/internal/catalog"
	"github.com/batchfs/batchfs/internal/dataset"
	"github.com/batchfs/batchfs/internal/fault"
	"github.com/batchfs/batchfs/internal/gpu"
	"github.com/batchfs/batchfs/internal/sample"
	"github.com/batchfs/batchfs/layout"
)

// A faultyLoader is storage that a test can make fail, hang, or return other data.
type faultyLoader struct {
	loader
	fault func(id int64) error
}

func (l faultyLoader) Load(ctx context.Context, epoch int, id int64, whole bool, grow func(n int) []byte) ([]byte, int64, dataset.Identity, error) {
	if err := l.fault(id); err != nil {
		return nil, 0, unknownIdentity, err
	}
	return l.loader.Load(ctx, epoch, id, whole, grow)
}

// startFaulty is start with storage that calls fault before each read.
func startFaulty(t testing.TB, dir string, fault func(id int64) error, change ...func(*Options)) *Engine {
	t.Helper()
	e := built(t, dir, change...)
	e.wrapLoaders(func(l loader) loader { return faultyLoader{l, fault} })
	e.start()
	return e
}

// startHanging is start with storage that does not answer for the first samples until the gate is
// closed.
func startHanging(t testing.TB, n int, hanging int64, change ...func(*Options)) (*Engine, chan struct{}) {
	t.Helper()
	gate := make(chan struct{})
	return startFaulty(t, testDir(t, n), func(id int64) error {
		if id < hanging {
			<-gate
		}
		return nil
	}, change...), gate
}

// answers opens batches one after the other, which must not wait for reads that hang.
func answers(t testing.TB, e *Engine, keys ...Key) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	for _, k := range keys {
		f, err := e.Open(ctx, k, layout.NHWCForm)
		if err != nil {
			t.Fatalf("%s, while %d reads hang: %v", k, e.batches.flow.hungReads.count.Load(), err)
		}
		f.Close()
	}
}

// patience is the time after which something counts as hung. Nothing waits this long on purpose,
// but machines can be slow.
const patience = time.Minute

// eventually waits until ok returns true.
func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("never: %s", what)
		}
	}
}

func (e *Engine) locked(f func() bool) bool {
	e.batches.mu.Lock()
	defer e.batches.mu.Unlock()
	return f()
}

func (e *Engine) batchBytes() int64 { n, _ := e.memory.ledger.usage(useBatches); return n }

func TestCauses(t *testing.T) {
	for _, c := range []struct {
		err  error
		want fault.Cause
	}{
		{decode.ErrCorrupt, fault.File}, {decode.ErrFormat, fault.File}, {decode.ErrTooLarge, fault.File}, {sample.ErrUnfit, fault.File},
		{dataset.ErrMissing, fault.File}, {dataset.ErrChanged, fault.File}, {dataset.ErrNotFile, fault.File}, {archive.ErrBad, fault.File},
		{unix.ENOENT, fault.File}, {unix.EACCES, fault.File}, {unix.ELOOP, fault.File}, {unix.ENOTDIR, fault.File},
		{partError{decode.ErrCorrupt, 0}, fault.File}, {ErrBad, fault.File},
		{decode.ErrMemory, fault.Memory}, {unix.ENOMEM, fault.Memory}, {ErrNoMemory, fault.Memory}, {sample.ErrMemory, fault.Memory}, {gpu.ErrMemory, fault.Memory},
		{errDropped, fault.Cancelled}, {ErrClosed, fault.Cancelled}, {dataset.ErrStopped, fault.Cancelled}, {context.Canceled, fault.Cancelled},
		{unix.EMFILE, fault.Machine}, {unix.ENFILE, fault.Machine}, {unix.EIO, fault.Machine}, {unix.ESTALE, fault.Machine}, {unix.EINTR, fault.Machine},
		{decode.ErrDestination, fault.Machine}, {decode.ErrPart, fault.Machine}, {dataset.ErrAway, fault.Machine}, {dataset.ErrShort, fault.Machine}, {ErrMachine, fault.Machine},
		{errors.New("whatever else"), fault.Machine}, {&panicError{}, fault.Machine},
	} {
		if got := fault.Of(fmt.Errorf("a sample: %w", c.err)); got != c.want {
			t.Errorf("%v: cause %d, want %d", c.err, got, c.want)
		}
	}
}

// TestMachineFailures: a failure of the machine fails the batch under every policy, and is not held
// against the file. Once it is over, the same mount serves every batch as if nothing had been.
func TestMachineFailures(t *testing.T) {
	const n = 8
	dir := testDir(t, n)
	for _, policy := range []catalog.OnError{Fail, Replace, Zero} {
		for _, failure := range []error{unix.EMFILE, unix.ENFILE, unix.EIO, unix.ESTALE, unix.EINTR, unix.ENOMEM, unix.ETIMEDOUT, decode.ErrMemory} {
			t.Run(fmt.Sprintf("%v/%v", policy, failure), func(t *testing.T) {
				var log bytes.Buffer
				var failing atomic.Bool
				failing.Store(true)
				e := startFaulty(t, dir, func(id int64) error {
					if failing.Load() && id == 2 {
						return &dataset.FileError{Path: "x", Err: failure}
					}
					return nil
				}, func(o *Options) {
					o.OnError, o.Logger = policy, slog.New(slog.NewTextHandler(lockedWriter{new(sync.Mutex), &log}, nil))
					o.Remedy = func(err error) string { return "against " + err.Error() }
					o.PrefetchDepth = 0 // an open may still find a batch made ahead failing, just after the failure ended
				})
				check := func(err error) {
					t.Helper()
					if !errors.Is(err, ErrMachine) && !errors.Is(err, ErrNoMemory) || errors.Is(err, ErrBad) {
						t.Errorf("the error is %v", err)
					}
				}
				for _, form := range []layout.Form{layout.NHWCForm, layout.NPY, layout.PNG} {
					check(opens(e, Key{}, form))
				}
				if policy != Fail {
					_, err := e.Describe(t.Context(), Key{})
					check(err)
				}
				if remedy := e.Remedy(ErrBad); remedy != "" {
					t.Errorf("against a bad file: %s", remedy)
				}
				if e.bad.total() != 0 {
					t.Errorf("it is held against a file: %+v", e.Errors())
				}
				failing.Store(false)
				for _, k := range allKeys(e) {
					if got := read(t, e, k, layout.NHWCForm); !bytes.Equal(got, want(t, e, n, k, 0)) {
						t.Errorf("%s has other bytes afterwards", k)
					}
					for _, s := range samplesOf(t, e, k) {
						if s.Status != catalog.StatusOK {
							t.Errorf("%s says %+v", k, s)
						}
					}
				}
				e.Close()
				if !strings.Contains(log.String(), `hint="against `) || !strings.Contains(log.String(), failure.Error()) {
					t.Errorf("the log does not say what ran out and what to do: %s", log.String())
				}
			})
		}
	}
}

// TestDescriptorsComeBackForAll: where the samples of a batch find no descriptor, all at once,
// those of batches that nobody reads are given back to all of them, though only one finds those.
func TestDescriptorsComeBackForAll(t *testing.T) {
	const n = 8
	var refusing atomic.Bool
	var refused sync.WaitGroup
	refused.Add(4)
	e := startFaulty(t, testDir(t, n), func(int64) error {
		if !refusing.Load() {
			return nil
		}
		refused.Done()
		refused.Wait()
		refusing.Store(false)
		return unix.EMFILE
	}, func(o *Options) { o.PrefetchDepth, o.Workers, o.Loads = 0, 4, 4 })
	read(t, e, Key{}, layout.NHWCForm)
	refusing.Store(true)
	key := Key{Batch: 1}
	if got := read(t, e, key, layout.NHWCForm); !bytes.Equal(got, want(t, e, n, key, 0)) {
		t.Error("other bytes")
	}
}

// TestPanicOutsideASample: a panic costs one Open, too, while a batch is laid out, or while files
// known to be bad are checked.
func TestPanicOutsideASample(t *testing.T) {
	const n = 4
	dir := testDir(t, n)
	e := built(t, dir, func(o *Options) { o.PrefetchDepth = 0 })
	pool, look, panics := e.memory.pool, e.bad.look, false
	e.memory.pool = nil
	e.bad.look = func(i int) (dataset.Identity, error) {
		if panics {
			panic("a bug")
		}
		return look(i)
	}
	e.start()
	expect := func(want error) {
		t.Helper()
		if _, err := e.Open(context.Background(), Key{}, layout.NHWCForm); !errors.Is(err, want) {
			t.Errorf("the open says %v, want %v", err, want)
		}
	}
	expect(ErrMachine)
	e.memory.pool = pool
	spoil(t, samplePath(dir, number(n, 1)))
	expect(ErrBad)
	panics = true
	expect(ErrMachine)
	panics = false
	expect(ErrBad)
}

// TestRepairedWhileItWasRead: the file is repaired after it was read and before it is found to be
// bad.
func TestRepairedWhileItWasRead(t *testing.T) {
	const n = 4
	dir := testDir(t, n)
	var sample *spoilt
	e := startRepairing(t, dir, func() { sample.repair() }) // between reading and decoding
	sample = spoil(t, samplePath(dir, number(n, 1)))
	fails(t, e, Key{}, layout.NHWCForm, ErrBad)
	read(t, e, Key{}, layout.NHWCForm)
}

// A repairingLoader has a file repaired right after its first read.
type repairingLoader struct {
	loader
	once   *sync.Once
	repair func()
}

func (l repairingLoader) Load(ctx context.Context, epoch int, id int64, whole bool, grow func(n int) []byte) ([]byte, int64, dataset.Identity, error) {
	data, read, seen, err := l.loader.Load(ctx, epoch, id, whole, grow)
	if id == 1 {
		l.once.Do(l.repair)
	}
	return data, read, seen, err
}

func startRepairing(t *testing.T, dir string, repair func()) *Engine {
	t.Helper()
	e, once := built(t, dir, func(o *Options) { o.PrefetchDepth = 0 }), new(sync.Once) // prefetching would read the file as well
	e.wrapLoaders(func(l loader) loader { return repairingLoader{l, once, repair} })
	e.start()
	return e
}

// TestReplacementEndsWithTheStorage: no replacement is searched for if the storage has
// failed.
func TestReplacementEndsWithTheStorage(t *testing.T) {
	var loads atomic.Int64
	e := startFaulty(t, testDir(t, 400), func(int64) error { loads.Add(1); return unix.EIO }, func(o *Options) { o.OnError, o.PrefetchDepth = Replace, 0 })
	fails(t, e, Key{}, layout.NHWCForm, ErrMachine)
	e.Close()
	if n := loads.Load(); n > int64(e.catalog.Options.BatchSize) || len(e.bad.files) != 0 {
		t.Errorf("%d reads, %d files remembered as bad", n, len(e.bad.files))
	}
}

// TestReplacementIsBounded: if all files are bad, the search is bounded, its records are charged to
// the ledger, and it ends with the engine.
func TestReplacementIsBounded(t *testing.T) {
	const n = maxReplacements + 200
	dir := t.TempDir()
	for i := range n { // all of one size, so that each one fits
		writePPM(t, samplePath(dir, i), 2, 2, picture(i, 2, 2))
	}
	var loads atomic.Int64
	e := startFaulty(t, dir, func(int64) error { loads.Add(1); return decode.ErrCorrupt }, func(o *Options) { o.OnError, o.BatchSize, o.PrefetchDepth = Replace, 1, 0 })
	before, _ := e.memory.ledger.usage(useIndex)
	_, err := e.Open(context.Background(), Key{}, layout.NHWCForm)
	if !errors.Is(err, ErrBad) || !strings.Contains(err.Error(), fmt.Sprint(maxReplacements)) {
		t.Errorf("the open says %v", err)
	}
	if n := loads.Load(); n != maxReplacements+1 {
		t.Errorf("%d reads", n)
	}
	if after, _ := e.memory.ledger.usage(useIndex); after-before < maxReplacements*badFileBytes {
		t.Errorf("%d bytes are charged for %d bad files", after-before, maxReplacements)
	}
}

// TestReplacementEndsWhenNobodyWaits: a search lasts only while the batch is wanted.
func TestReplacementEndsWhenNobodyWaits(t *testing.T) {
	dir := t.TempDir()
	for i := range 300 {
		writePPM(t, samplePath(dir, i), 2, 2, picture(i, 2, 2))
	}
	var loads atomic.Int64
	ctx, cancel := context.WithCancel(context.Background())
	gate := make(chan struct{})
	e := startFaulty(t, dir, func(int64) error {
		if loads.Add(1) == 5 {
			cancel()
			<-gate
		}
		return decode.ErrCorrupt
	}, func(o *Options) { o.OnError, o.BatchSize, o.PrefetchDepth, o.Workers = Replace, 1, 0, 1 })
	if _, err := e.Open(ctx, Key{}, layout.NHWCForm); !errors.Is(err, context.Canceled) {
		t.Errorf("the open says %v", err)
	}
	eventually(t, "the batch is given up", func() bool { return e.locked(func() bool { return len(e.batches.table) == 0 }) })
	close(gate)
	e.Close()
	if n := loads.Load(); n > 6 {
		t.Errorf("%d reads, the last of them for nobody", n)
	}
}

// TestStalledStorageStopsNobodyElse: hanging reads block neither the workers nor the memory
// of other batches, whether an Open waits for the hanging batch or not. Close leaves the
// reads behind.
func TestStalledStorageStopsNobodyElse(t *testing.T) {
	t.Parallel() // it waits
	const n = 64
	e, gate := startHanging(t, n, n/4, func(o *Options) { // all of shard 0
		o.Shards, o.StickToShard, o.PrefetchDepth, o.Workers = 4, true, 0, 2
	})
	ctx, cancel := context.WithCancel(context.Background())
	var gone sync.WaitGroup
	for i := range 2 {
		gone.Go(func() {
			if _, err := e.Open(ctx, Key{Batch: i}, layout.NHWCForm); !errors.Is(err, context.Canceled) {
				t.Errorf("the open says %v", err)
			}
		})
	}
	eventually(t, "reads of both hang", func() bool { return len(e.reading()) >= 2 })
	read(t, e, Key{Shard: 1}, layout.NHWCForm)
	cancel()
	gone.Wait()
	eventually(t, "the batches are given up", func() bool {
		return e.locked(func() bool { return e.batches.table[Key{}] == nil || !e.batches.streams.Needs(Key{}) })
	})
	read(t, e, Key{Shard: 2}, layout.NHWCForm)
	eventually(t, "their memory is free", func() bool {
		return e.locked(func() bool { return e.batches.table[Key{}] == nil && e.batches.table[Key{Batch: 1}] == nil })
	})
	began := time.Now()
	err := e.Close()
	if !errors.Is(err, ErrLeftBehind) || !strings.Contains(err.Error(), ".ppm") {
		t.Errorf("Close says %v", err)
	}
	if took := time.Since(began); took > patience {
		t.Errorf("Close took %v", took)
	}
	close(gate)
	eventually(t, "what was left behind is freed", func() bool { _, sum := e.memory.ledger.usage(useBatches); return e.batchBytes() == 0 && sum > 0 })
	eventually(t, "the loads have ended", func() bool { return e.locked(func() bool { return e.batches.flow.loading == 0 }) })
}

// TestReadsThatComeBack: when reads that hung have returned, they count like any others, and a
// drawer whose own read was one of them does not run twice.
func TestReadsThatComeBack(t *testing.T) {
	t.Parallel() // it waits
	e, gate := startHanging(t, 16, 4, func(o *Options) { o.PrefetchDepth, o.Workers = 0, 2 })
	opened := make(chan error, 1)
	go func() { opened <- opens(e, Key{}, layout.NHWCForm) }()
	eventually(t, "others stand in", func() bool {
		return e.locked(func() bool { return e.batches.flow.hungReads.count.Load() > 0 && e.batches.flow.resting == 2 })
	})
	read(t, e, Key{Batch: 1}, layout.NHWCForm)
	close(gate)
	if err := <-opened; err != nil {
		t.Error(err)
	}
	eventually(t, "all is as before", func() bool {
		return e.locked(func() bool {
			f := e.batches.flow
			return e.batches.flow.hungReads.count.Load() == 0 && f.loading == 0 && f.resting == len(f.drawers)
		})
	})
	for _, k := range allKeys(e) {
		read(t, e, k, layout.NHWCForm)
	}
}

// TestReadThatReturnsAsItIsFoundToHang: a load whose read has returned never counts as hanging.
func TestReadThatReturnsAsItIsFoundToHang(t *testing.T) {
	e := unstarted(t, 16)
	l := newLoad(e.batches)
	l.item = item{batch: &batch{}}
	e.batches.flow.hungReads.loads = append(e.batches.flow.hungReads.loads, l)
	later := e.batches.flow.hungReads.began.Add(time.Hour)
	for range 20_000 {
		l.fetchingSince.Store(1)
		var both sync.WaitGroup
		both.Go(l.endFetch)
		watcher{e.batches}.replaceStalled(later)
		both.Wait()
		if l.stalled || e.batches.flow.hungReads.count.Load() != 0 {
			t.Error("it counts as hanging")
			break
		}
	}
}

// TestLooksThatHang: checks of bad files that hang hold up neither the batch workers nor Close, and
// there is only one for a batch, however often it is opened.
func TestLooksThatHang(t *testing.T) {
	t.Parallel() // it waits
	const n = 24
	for _, policy := range []catalog.OnError{Fail, Zero} {
		dir := testDir(t, n)
		spoil(t, samplePath(dir, number(n, 1)))
		e := built(t, dir, func(o *Options) { o.OnError, o.PrefetchDepth, o.BatchWorkers = policy, 0, 1 })
		var hangs atomic.Bool
		var looks atomic.Int32
		gate := make(chan struct{})
		e.bad.look = func(i int) (dataset.Identity, error) {
			if hangs.Load() {
				looks.Add(1)
				<-gate
			}
			return e.catalog.Dataset.Check(i)
		}
		e.start()
		for range 2 {
			_ = opens(e, Key{}, layout.NHWCForm)
		}
		hangs.Store(true)
		for range 5 {
			ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
			if _, err := e.Open(ctx, Key{}, layout.NHWCForm); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("%v: the open says %v", policy, err)
			}
			cancel()
		}
		if looks.Load() != 1 {
			t.Errorf("%v: %d looks hang", policy, looks.Load())
		}
		answers(t, e, Key{Batch: 2})
		closeLeaves(t, e)
		close(gate)
		e.batches.wait.Wait()
	}
}

// TestDeadStorageTakesNotAllWorkers: a reader whose storage does not answer, its read-ahead, and
// its further attempts leave workers to others.
func TestDeadStorageTakesNotAllWorkers(t *testing.T) {
	t.Parallel() // it waits
	const n = 128
	e, gate := startHanging(t, n, n/2, func(o *Options) { // all of shard 0
		o.Shards, o.StickToShard, o.BatchSize, o.PrefetchDepth, o.Workers = 2, true, 8, 4, 4
	})
	defer close(gate)
	for i := range 6 {
		ctx, cancel := context.WithTimeout(context.Background(), stallAfter*3/2)
		if _, err := e.Open(ctx, Key{Batch: i}, layout.NHWCForm); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("the open says %v", err)
		}
		cancel()
	}
	for i := range e.catalog.Plan.Batches(1, 0) {
		answers(t, e, Key{Shard: 1, Batch: i})
	}
}

// TestWantedBatchGetsAWorkerWhileOthersHang: it gets one even if it had none while it was only
// prefetched.
func TestWantedBatchGetsAWorkerWhileOthersHang(t *testing.T) {
	t.Parallel() // it waits
	// All of batch 0 hangs.
	e, gate := startHanging(t, 64, 4, func(o *Options) { o.PrefetchDepth, o.Workers = 1, 2 })
	defer close(gate)
	hangs, cancel := context.WithCancel(context.Background())
	var gone sync.WaitGroup
	gone.Go(func() { _, _ = e.Open(hangs, Key{}, layout.NHWCForm) })
	eventually(t, "its reads hang", func() bool { return e.batches.flow.hungReads.count.Load() > 0 })
	eventually(t, "the next is laid out", func() bool {
		return e.locked(func() bool {
			b := e.batches.table[Key{Batch: 1}]
			return b != nil && (b.state == making || b.state == ready)
		})
	})
	answers(t, e, Key{Batch: 1})
	cancel()
	gone.Wait()
}

// TestOtherBatchesOfAShardThatHangs: however many reads of one batch hang, the others of its shard
// are made when they are opened.
func TestOtherBatchesOfAShardThatHangs(t *testing.T) {
	t.Parallel() // it waits
	const batch = 64
	e, gate := startHanging(t, 4*batch, batch, func(o *Options) { // all of batch 0
		o.BatchSize, o.PrefetchDepth, o.Workers = batch, 0, 2
	})
	defer close(gate)
	hangs, cancel := context.WithCancel(context.Background())
	var gone sync.WaitGroup
	gone.Go(func() { _, _ = e.Open(hangs, Key{}, layout.NHWCForm) })
	eventually(t, "many reads hang", func() bool { return e.batches.flow.hungReads.count.Load() > extraLoads })
	answers(t, e, Key{Batch: 1}, Key{Batch: 2}, Key{Batch: 3})
	cancel()
	gone.Wait()
}

// TestSearchWithoutCandidatesEnds: the search ends when nobody waits, even if no sample of the
// range is tried.
func TestSearchWithoutCandidatesEnds(t *testing.T) {
	e := unstarted(t, 1100, func(o *Options) { o.OnError, o.PrefetchDepth = Replace, 0 })
	e.ask(Key{})
	b := own(t, e)
	l := claimed(t, e)
	e.batches.mu.Lock()
	b.spec.H, b.spec.W, b.waiting, b.refs = 0, 0, 0, 0 // nothing fits
	e.batches.discard(b)
	e.batches.mu.Unlock()
	if _, err := (&replacement{cause: decode.ErrCorrupt}).next(&l.item); !errors.Is(err, errDropped) {
		t.Errorf("the search ends with %v", err)
	}
}
