package engine

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/batchfs/batchfs/cache"
	"github.com/batchfs/batchfs/decode"
	"github.com/batchfs/batchfs/decode/resample"
	"github.com/batchfs/batchfs/internal/catalog"
	"github.com/batchfs/batchfs/internal/dataset"
	"github.com/batchfs/batchfs/internal/fakegpu"
	"github.com/batchfs/batchfs/internal/gpu"
	"github.com/batchfs/batchfs/internal/sample"
	"github.com/batchfs/batchfs/internal/testkit"
	"github.com/batchfs/batchfs/layout"
	"github.com/batchfs/batchfs/pinned"
)

// TestAnyLimit: the memory limit is any that a batch fits, and is lowered and raised; workers,
// loads, growth and what is done with bad samples are any, too. There are several readers, each of
// which holds one batch, and some give up. Reads take no time, some, or hang for seconds, and so
// does the driver of a GPU, which may have no memory, or be lost. Files may be spoilt and repaired
// meanwhile. Every batch is served with its bytes, the limit is kept, and in the end nothing is
// charged, waits or is under way, even if the engine closes early. In the bubble, a deadlock is a
// memory wait that passes at once.
func TestAnyLimit(t *testing.T) {
	dir := sizesDir(t)
	images, root, masks := openDataset(t, dir), t.TempDir(), t.TempDir()
	var lengths []int
	for id := range images.Len() {
		side := sides[id%len(sides)]
		writeMask(t, masks, id, side, side, id%4 == 3)
		lengths = append(lengths, 800*side)
	}
	ds, err := dataset.Open(t.Context(), masks, dataset.Options{Workers: 2, Prober: sample.ProbeMask})
	testkit.Must(t, err)
	t.Cleanup(func() { ds.Close() })
	damageMask(t, maskPath(masks, 9))
	wide, rows, like := wideArrays(t, root, lengths)
	seeds := map[bool]uint64{true: 3, false: 120}[testing.Short()]
	for _, kind := range []struct {
		name   string
		forms  []layout.Form // beside tensors
		more   int64         // memory beside that for images: of the largest file, or of staging buffers
		beside func(*Options)
	}{
		{"images", nil, 0, func(*Options) {}},
		{"masks", []layout.Form{layout.MasksNPY}, 0, func(o *Options) {
			o.Masks = &catalog.MaskOptions{Dataset: ds, Rows: rows}
			o.Masks.Ignore = -1
		}},
		{repairs, []layout.Form{layout.MasksNPY}, 0, func(o *Options) {
			o.Masks = &catalog.MaskOptions{Dataset: ds, Rows: rows}
			o.Masks.Ignore = -1
		}},
		{"arrays", []layout.Form{layout.ArrayForm(0)}, layout.Page + 6400*650, func(o *Options) {
			o.Arrays = []*catalog.ArrayOptions{{Name: "wide", Dataset: wide, Rows: rows, Like: like}}
		}},
		{"GPU", []layout.Form{layout.CUDA, layout.CUDA, layout.CUDA}, 0, func(*Options) {}},
		{"nvJPEG", []layout.Form{layout.CUDA}, 2 * stagingUnit, func(o *Options) { o.NVJPEG = "any" }},
	} {
		if slices.Contains(kind.forms, layout.CUDA) && !fakegpu.Kernels {
			continue // they need cgo here
		}
		forms := append(kind.forms, layout.NHWCForm, layout.NCHWForm, layout.NPY, layout.SafeTensors)
		for seed := range seeds {
			t.Run(fmt.Sprint(kind.name, "/", seed), func(t *testing.T) {
				s, r := &stress{T: t, images: images, forms: forms, sums: map[opened]uint32{}, found: map[version]bool{}}, rand.New(rand.NewPCG(seed, 1))
				if kind.name == repairs {
					s.images = openDataset(t, copied(t, dir))
				}
				s.spoils = kind.name == repairs
				o := s.settings(r)
				kind.beside(&o)
				need := s.reference(o) + kind.more
				o.MemoryLimit = (runtimeBytes+need+r.Int64N(need)/[]int64{1, 4, 16}[r.IntN(3)]+256<<10)*44/43 + r.Int64N(256<<10)
				synctest.Test(t, func(t *testing.T) {
					s.T = t
					s.round(r, o)
				})
			})
		}
	}
}

const repairs = "repairs" // the kind in which files are spoilt

// A stress is an engine with its readers.
type stress struct {
	*testing.T
	images  *dataset.Dataset
	forms   []layout.Form
	sums    map[opened]uint32 // of the bytes of batches; those that fail have none
	e       *Engine
	gpu     *fakegpu.GPU
	over    chan struct{} // closed when nothing hangs any more
	closing atomic.Bool
	spoils  bool // files are spoilt and repaired

	corrupt [stressed]atomic.Bool // files that reads find corrupt
	reading sync.Mutex
	found   map[version]bool // those that one did
}

// A version of a file.
type version struct{ id, time int64 }

type opened struct {
	key  Key
	form layout.Form
}

// hang waits, at most until nothing hangs any more.
func (s *stress) hang(most time.Duration) {
	select {
	case <-time.After(rand.N(most)):
	case <-s.over:
	}
}

func (s *stress) settings(r *rand.Rand) Options {
	o := testOptions()
	o.OnError, o.BatchSize, o.Shards = []catalog.OnError{Fail, Zero, Replace}[r.IntN(3)], 1+r.IntN(8), 1+r.IntN(2)
	o.Shuffle, o.Epochs, o.Anonymous, o.MemoryWait = true, 2, true, time.Hour
	o.Transform = resample.Options{Mode: resample.Stretch, Height: 150, Width: 200}
	o.Workers, o.BatchWorkers, o.PrefetchDepth, o.Loads = 1+r.IntN(4), 1+r.IntN(4), r.IntN(4), r.IntN(20)
	o.CachePolicy, o.CacheSize = []cache.Policy{cache.None, cache.Constant, cache.Static, cache.TinyLFU}[r.IntN(4)], r.Int64N(2<<20)
	o.CacheForm = map[cache.Policy]Form{cache.Constant: Form(r.IntN(3))}[o.CachePolicy] // others have no plan
	o.Memory = pinned.DefaultPolicy()
	o.Memory.HostGrowth = []float64{1, 1, 2, 4}[r.IntN(4)]
	if r.IntN(2) == 0 {
		inPairs(&o)
	}
	if r.IntN(4) == 0 {
		s.forms = append(s.forms, layout.PNG)
	}
	return o
}

// reference makes all batches with much memory. It returns the least that they can be made in.
func (s *stress) reference(o Options) (need int64) {
	o.Workers, o.Memory, o.CachePolicy, o.CacheForm = 2, pinned.Policy{}, cache.None, FormEncoded
	if o.NVJPEG != "" {
		addNVJPEG(s, &o, &fakegpu.GPU{Memory: 64 << 20})
	}
	e, err := build(s.images, o)
	testkit.Must(s, err)
	defer e.Close()
	e.wrapLoaders(func(l loader) loader { return stressLoader{l, s, func() {}} })
	most := mostOf(s.T, e)
	e.start()
	for _, k := range allKeys(e) {
		for _, form := range s.forms {
			size := e.catalog.Size(k, form)
			if form == layout.PNG {
				size += e.catalog.TensorSize() // it is made beside the tensor
			}
			need = max(need, size)
			from := form
			if form == layout.CUDA {
				from = layout.NHWCForm // the bytes of its tensor
			}
			if f, err := e.Open(s.Context(), k, from); err == nil {
				s.sums[opened{k, form}] = crc32.ChecksumIEEE(f.Bytes())
				f.Close()
			} else if !errors.Is(err, ErrBad) {
				s.Fatalf("%s.%s: %v", k, form.Ext(), err)
			}
		}
	}
	return need + most
}

// A stressLoader finds that some files are bad once it has read them.
type stressLoader struct {
	loader
	stress *stress
	pause  func()
}

func (l stressLoader) Load(ctx context.Context, epoch int, id int64, whole bool, grow func(n int) []byte) ([]byte, int64, dataset.Identity, error) {
	l.pause()
	data, read, seen, err := l.loader.Load(ctx, epoch, id, whole, grow)
	if l.pause(); err == nil && l.stress.finds(id, seen) {
		err = &dataset.FileError{Path: "x", Err: decode.ErrCorrupt}
	}
	return data, read, seen, err
}

// addGPU adds a GPU. It may have hardly any memory, or none; some calls fail, or all from one on,
// because it is lost; or they hang.
func (s *stress) addGPU(r *rand.Rand, o *Options) {
	s.gpu, o.CacheForm = &fakegpu.GPU{Memory: 64 << 20}, FormEncoded
	if o.NVJPEG != "" { // its faults would be those of batches
		addNVJPEG(s, o, s.gpu)
		return
	}
	calls, at := atomic.Int32{}, 1+r.Int32N(60)
	what := []error{nil, nil, gpu.ErrMemory, errors.New("CUDA_ERROR_UNKNOWN"), gpu.ErrLost}[r.IntN(5)]
	s.gpu.Memory = []int64{64 << 20, 2 * gpu.SlabUnit, 0}[r.IntN(3)]
	s.gpu.Fail = func(string) error {
		if n := calls.Add(1); n < at || n > at+3 && what != gpu.ErrLost {
			return nil
		}
		return what
	}
	if r.IntN(3) == 0 {
		s.gpu.Begin = func(gpu.Run) { s.hang(3 * deviceWait) }
	}
	if what != nil {
		o.MemoryLimit += 16 * stagingUnit // is not freed, as a GPU that failed may still write there
	}
	o.Device, o.DecodeOnDevice = gpu.New(s.gpu, gpu.Options{}), true
}

// round has readers read, while the limit changes, and ends the engine.
func (s *stress) round(r *rand.Rand, o Options) {
	if slices.Contains(s.forms, layout.CUDA) {
		s.addGPU(r, &o)
	}
	e, err := build(s.images, o)
	testkit.Must(s, err)
	s.e, s.over = e, make(chan struct{})
	if s.spoils {
		e.bad.ledger = newLedger(1 << 20) // what is forgotten for lack of memory cannot be repaired
	}
	seldom := 4 << r.IntN(8)
	e.wrapLoaders(func(l loader) loader {
		return stressLoader{l, s, func() {
			switch n := rand.IntN(seldom); {
			case n == 0:
				s.hang(4 * stallAfter)
			case n%4 == 1:
				time.Sleep(rand.N(2 * time.Millisecond))
			}
		}}
	})
	if r.IntN(2) == 0 {
		e.flow.ownReads = ownReads{remote: true} // reads take no time, for good
	}
	e.start()
	if s.gpu != nil && r.IntN(2) == 0 {
		e.device.share.all()
	}
	defer time.AfterFunc(100*time.Hour, func() { panic(s.Name() + " hangs") }).Stop()
	var readers sync.WaitGroup
	for range 1 + r.IntN(6) {
		readers.Go(s.read)
	}
	ends, end := make(chan struct{}, 2), make(chan struct{})
	var spoiler sync.WaitGroup
	if s.spoils {
		spoiler.Go(func() { s.spoil(end) })
	}
	go func() {
		readers.Wait()
		close(end)
		spoiler.Wait()
		ends <- struct{}{}
	}()
	early := r.IntN(4) == 0
	if early {
		time.AfterFunc(rand.N(5*time.Second), func() { ends <- struct{}{} })
	}
	for len(ends) == 0 {
		e.SetMemoryLimit([]int64{o.MemoryLimit, r.Int64N(o.MemoryLimit)}[r.IntN(2)])
		time.Sleep(rand.N(50 * time.Millisecond))
	}
	if !early {
		s.afterRepairs()
		s.atRest()
	}
	s.closing.Store(true)
	if err := e.Close(); err != nil && !(early && errors.Is(err, ErrLeftBehind)) {
		s.Error(err)
	}
	if early {
		close(s.over)
	}
	readers.Wait()
	time.Sleep(closeWait) // what was left behind ends
	synctest.Wait()
	if n := e.Stats().Memory.Peak; n > o.MemoryLimit {
		s.Errorf("%d bytes were used of %d", n, o.MemoryLimit)
	}
	for u := useBatches; u <= useCache; u++ {
		if n, _ := e.memory.ledger.usage(u); n != 0 {
			s.Errorf("%d bytes are charged for use %d in the end", n, u)
		}
	}
	if s.gpu != nil && o.Device.Stats().Real != 0 {
		s.Errorf("%+v in the end", o.Device.Stats())
	}
}

// atRest checks that nothing waits or is under way once all readers have gone.
func (s *stress) atRest() {
	close(s.over)
	s.e.SetMemoryLimit(s.e.opts.MemoryLimit)
	time.Sleep(2 * defaultIdle)
	synctest.Wait()
	s.e.mu.Lock()
	defer s.e.mu.Unlock()
	f, ledger := s.e.flow, s.e.memory.ledger
	left := [...]int64{
		int64(f.hungReads.count.Load()), int64(f.loading), f.bytes, int64(len(f.room.waiting)), ledger.ready, ledger.large,
		int64(len(s.e.device.asking)), s.e.schedule.count(), int64(len(s.e.table)),
	}
	if left != [len(left)]int64{} || !f.isIdle() {
		s.Errorf("hanging reads, loads, ready bytes, waiting items, room for the ready and the large, calls to the GPU, unmade batches, batches: %d; idle: %t", left, f.isIdle())
	}
}

// read opens some batches, one after the other, and holds each for a while.
func (s *stress) read() {
	keys := allKeys(s.e)
	at := rand.IntN(len(keys))
	for range 4 + rand.IntN(12) {
		if at++; rand.IntN(4) == 0 {
			at = rand.IntN(len(keys))
		}
		k, form := keys[at%len(keys)], s.forms[rand.IntN(len(s.forms))]
		ctx, cancel := context.WithCancel(s.Context())
		if rand.IntN(8) == 0 {
			time.AfterFunc(rand.N([]time.Duration{20 * time.Millisecond, 2 * time.Second}[rand.IntN(2)]), cancel)
		}
		f, err := s.e.Open(ctx, k, form)
		sum, good := s.sums[opened{k, form}]
		switch {
		case err == nil:
			time.Sleep(rand.N(5 * time.Millisecond)) // others take memory meanwhile
			data := f.Bytes()
			if form == layout.CUDA {
				data = tensorOf(s.T, s.gpu, f)
			}
			if crc32.ChecksumIEEE(data) != sum && !s.spoils {
				s.Errorf("%s.%s has other bytes", k, form.Ext())
			}
			f.Close()
		case errors.Is(err, ErrBad) && (!good || s.spoils), ctx.Err() != nil, s.closing.Load() && errors.Is(err, ErrClosed):
		case form == layout.CUDA && !errors.Is(err, ErrBad): // the GPU may fail
		default:
			s.Errorf("%s.%s: %v", k, form.Ext(), err)
		}
		cancel()
	}
}

// copied copies a directory's files.
func copied(t *testing.T, dir string) string {
	t.Helper()
	to := t.TempDir()
	testkit.Must(t, os.CopyFS(to, os.DirFS(dir)))
	return to
}

// spoil spoils one file after the other, and repairs it.
func (s *stress) spoil(end chan struct{}) {
	for when := time.Now(); ; {
		select {
		case <-end:
			return
		case <-time.After(rand.N(20 * time.Millisecond)):
		}
		id := rand.IntN(stressed)
		path := filepath.Join(s.images.Root, s.images.Path(id))
		good := contents(s, path)
		write := func(data []byte, when time.Time) {
			if err := errors.Join(os.WriteFile(path, data, 0o644), os.Chtimes(path, when, when)); err != nil {
				s.Error(err)
			}
		}
		what := rand.IntN(3)
		s.corrupt[id].Store(what == 0)
		if time.Sleep(rand.N(20 * time.Millisecond)); what == 1 {
			_ = os.Remove(path)
			time.Sleep(rand.N(20 * time.Millisecond))
		}
		for range rand.IntN(3) {
			when = when.Add(time.Second)
			write(good[:rand.IntN(len(good)/2)], when)
			time.Sleep(rand.N(20 * time.Millisecond))
		}
		s.corrupt[id].Store(false)
		s.reading.Lock()
		now := s.images.Stat(id).ModTime
		if when = when.Add(time.Second); !s.found[version{int64(id), now}] {
			write(good, time.Unix(0, now)) // no other version may take its place
		} else {
			write(good, when)
		}
		s.reading.Unlock()
	}
}

// finds reports whether a version of a file is corrupt.
func (s *stress) finds(id int64, seen dataset.Identity) bool {
	if id%7 == 2 {
		return true
	}
	s.reading.Lock()
	defer s.reading.Unlock()
	if !s.corrupt[id].Load() {
		return false
	}
	s.found[version{id, seen.ModTime}] = true
	return true
}

// afterRepairs checks that all batches are as if nothing had been spoilt.
func (s *stress) afterRepairs() {
	if !s.spoils {
		return
	}
	s.e.SetMemoryLimit(s.e.opts.MemoryLimit)
	for _, k := range allKeys(s.e) {
		for _, form := range s.forms {
			f, err := s.e.Open(s.Context(), k, form)
			sum, good := s.sums[opened{k, form}]
			switch {
			case good != (err == nil) || err != nil && !errors.Is(err, ErrBad):
				s.Errorf("%s.%s, which was repaired: %v", k, form.Ext(), err)
			case good && crc32.ChecksumIEEE(f.Bytes()) != sum:
				s.Errorf("%s.%s, which was repaired, has other bytes", k, form.Ext())
			}
			if err == nil {
				f.Close()
			}
		}
	}
}
