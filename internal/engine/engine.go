package engine

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/batchfs/batchfs/internal/catalog"
	"github.com/batchfs/batchfs/internal/dataset"
	"github.com/batchfs/batchfs/internal/fault"
	"github.com/batchfs/batchfs/internal/readahead"
	"github.com/batchfs/batchfs/layout"
)

// An Engine makes the batches of one dataset under one set of options. All of its methods
// are safe for concurrent use.
type Engine struct {
	*batches
	readers *readers
}

// New starts an engine: its drawers, batch workers, and a watcher. Close ends all of them. The
// dataset must outlive the engine.
func New(ds *dataset.Dataset, o Options) (*Engine, error) {
	e, err := build(ds, o)
	if err != nil {
		return nil, err
	}
	e.start()
	return e, nil
}

// build makes an engine without starting its workers.
func build(ds *dataset.Dataset, o Options) (*Engine, error) {
	c, err := NewBudget(ds, o)
	if err != nil {
		return nil, err
	}
	o = *c.Options
	m := newMemory(c.Options)
	m.reserve(useRuntime, runtimeBytes)
	m.reserve(useIndex, c.indexMemory())
	all := &batches{
		catalog: c.Catalog, opts: c.Options, memory: m, bad: newBadParts(c, m.ledger), meter: &meter{start: time.Now()},
		table: map[Key]*batch{}, knownBad: map[Key]bool{},
	}
	all.ctx, all.cancel = context.WithCancel(context.Background())
	all.takeWork.L = &all.mu
	all.streams = readahead.New(c.Catalog, o.PrefetchDepth, shelf{all})
	all.device = newDevice(all)
	all.flow = newFlow(all)
	all.schedule = &schedule{batches: all}
	all.flow.room = &room{batches: all}
	all.flow.room.some.L = &all.mu
	m.batches = eviction{all} // before the cache, which takes its memory from batches
	all.caches = openCaches(c, m, all.meter.stalled, all.flow.readsFree)
	_, sum := m.ledger.usage(useIndex)
	m.fixed.Store(sum) // also what caches take while they are empty
	m.presize(c)
	return &Engine{all, &readers{all, map[Key]*check{}}}, nil
}

func (e *Engine) start() {
	e.batches.start()
	e.caches.planner.start()
}

// closeWait is how long Close waits for reads that cannot be cancelled.
const closeWait = 1500 * time.Millisecond

// Close ends all workers and frees all memory except that of open files, which is freed when they
// are closed. Pending Opens get ErrClosed. Close waits for images being decoded, but not for reads
// that hang in the kernel, or for a GPU driver that does not answer. In that case it returns an
// ErrLeftBehind that names them, within three seconds, and the dataset and the GPU must stay open
// for them. If they ever return, the rest is freed.
func (e *Engine) Close() error {
	if !e.beginClosing() {
		return nil
	}
	ended := make(chan struct{})
	go func() {
		e.caches.planner.close()
		e.wait.Wait()
		e.free()
		close(ended)
	}()
	for {
		select {
		case <-ended:
			if n := e.memory.pool.Stats().Leaving; n > 0 {
				return fmt.Errorf("%w: %d buffers that the GPU's driver does not let go of", ErrLeftBehind, n)
			}
			return nil
		case <-time.After(closeWait):
		}
		if names := e.reading(); len(names) > 0 {
			return fmt.Errorf("%w: %s", ErrLeftBehind, strings.Join(names, ", "))
		} // otherwise an image is taking long to decode
	}
}

// reading names the samples and batches whose files are being read, or that the GPU's driver is
// working on, and the local cache if its disk is asked.
func (e *Engine) reading() (names []string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, l := range e.flow.hungReads.loads {
		if l.fetchingSince.Load() != 0 {
			names = append(names, e.bad.pathOf(l.fetching.Load()))
		}
	}
	for k := range e.readers.checks {
		names = append(names, k.String())
	}
	if e.caches.planner.isLooking() {
		names = append(names, "the local cache")
	}
	for _, c := range e.device.asking {
		names = append(names, e.catalog.Options.FileName(c.key, c.form))
	}
	return names
}

// free frees everything that nothing holds. All workers must have ended.
func (e *Engine) free() {
	e.mu.Lock()
	for _, b := range e.table {
		e.streams.Left(b.key) // so that it is freed when its last reader closes it
		if b.refs == 0 {
			e.discard(b)
		}
	}
	e.mu.Unlock()
	for _, l := range e.flow.hungReads.loads {
		l.input.giveBack()
	}
	for _, w := range e.device.workers {
		w.freeStaging()
	}
	for _, d := range e.flow.drawers {
		d.close()
	}
	e.caches.close()
	e.memory.close()
}

// Quiet waits until the engine makes no batch for anyone, and reads nothing for batches that were
// dropped, so that what is measured next is not slowed down by prefetching.
func (e *Engine) Quiet(ctx context.Context) error {
	const pause = time.Millisecond
	isBusy := func() bool {
		e.mu.Lock()
		defer e.mu.Unlock()
		return !e.closed && (e.schedule.count() > 0 || !e.flow.isIdle())
	}
	for isBusy() {
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// Budget is how the memory limit is divided.
func (e *Engine) Budget() Budget { return Budget{e.catalog, e.opts} }

// Catalog is what exists: the shapes, sizes and samples of all batches.
func (e *Engine) Catalog() *Catalog { return e.catalog }

// ShardsHere returns the range of shards that are read here; to is excluded.
func (e *Engine) ShardsHere() (from, to int) {
	return e.opts.LocalFrom, e.opts.LocalFrom + e.opts.LocalShards()
}

// Remedy says what to do about an error of Open; "" if that is unknown, or if a file is at fault.
func (e *Engine) Remedy(err error) string {
	if fault.Of(err) == fault.File {
		return ""
	}
	return e.opts.Remedy(err)
}

// HasGPU reports whether the form CUDA exists.
func (e *Engine) HasGPU() bool { return e.opts.Device != nil && e.opts.Device.CannotShare() == nil }

// Errors lists the samples that could not be read, in the order of discovery.
func (e *Engine) Errors() []BadSample { return e.bad.all() }

// Reserve permanently takes bytes out of the memory limit, for the code that serves the batches.
// It may exceed the limit, which then leaves nothing for batches.
func (e *Engine) Reserve(bytes int64) { e.memory.reserve(useRuntime, bytes) }

// SetMemoryLimit changes the memory limit, in bytes, to at most Options.MemoryLimit. Memory that
// no reader uses is freed at once to meet it.
func (e *Engine) SetMemoryLimit(n int64) { e.memory.setLimit(n) }

// RoomForBatches is the most bytes that batches can ever take together: the memory limit less the
// process, the index, and the loading and drawing of samples. A batch that is larger fails.
func (e *Engine) RoomForBatches() int64 { return e.memory.forBatches() }

// Usage is the memory limit and its use, in bytes.
func (e *Engine) Usage() (total, free, used int64) {
	_, used = e.memory.ledger.usage(useBatches)
	return e.memory.ledger.most, max(0, e.memory.ledger.most-used), used
}

// ProbeFile opens an empty file of the kind that holds batches, to test how the kernel
// treats it. The caller closes it.
func (e *Engine) ProbeFile() (fd int, closeFile func(), err error) {
	if fd, err = e.memory.store.File(); err != nil {
		return -1, nil, err
	}
	return fd, func() { _ = unix.Close(fd) }, nil
}

// Describe says what each slot of a batch shows. It waits for the pixels only if bad samples are
// replaced or zeroed, because the description must then agree with the pixels. Otherwise it reads
// nothing: a sample is corrupt if the index or the last attempt to read it says so.
func (e *Engine) Describe(ctx context.Context, k Key) (catalog.Description, error) {
	if !e.catalog.Exists(k) {
		return catalog.Description{}, fmt.Errorf("%w: %s", ErrNotExist, k)
	}
	if e.catalog.Options.OnError == Fail {
		return e.catalog.DescribeWith(k, e.bad.knownOf), nil
	}
	e.mu.Lock()
	form := e.streams.UsualForm(k.Shard)
	e.mu.Unlock()
	key := Key{Shard: k.Shard, Epoch: k.Epoch, Batch: k.Batch, Part: e.catalog.Options.PartOf(form)}
	as := e.schedule.newTurn()
	b, err := e.readers.hold(ctx, key, form, as)
	if errors.Is(err, ErrMachine) && ctx.Err() == nil && e.catalog.Options.HasArrays(key.Part) {
		// An array that is gone fails only what shows it: what the images show is known without.
		key.Part = catalog.Images
		b, err = e.readers.hold(ctx, key, e.catalog.TensorForm(), as)
	}
	if err != nil {
		return catalog.Description{}, err
	}
	defer e.unhold(b)
	d := b.description() // the description is the same for every part
	d.Key, d.Spec = k, d.Spec.In(e.catalog.Options.Layout)
	if !b.key.Part.HasImages() {
		d.Spec = e.catalog.SpecOf(b.slots)
	}
	return d, nil
}

// Open returns a batch in one of its large forms. If the batch does not exist yet, it is made in
// that form. The form CUDA exists only with Options.Device; its pixels stay on the GPU until the
// File is closed. Open waits until the batch is complete and, if the memory limit is used up, at
// most Options.MemoryWait for its turn. If ctx ends, the batch is still made for the other Opens
// that wait for it; if there are none, it is given up.
//
// Errors: ErrNotExist, ErrBad, ErrNoMemory, ErrTooBig, ErrMachine, ErrClosed, and ctx's own.
func (e *Engine) Open(ctx context.Context, k Key, form layout.Form) (*File, error) {
	has := e.catalog.Options.Extent()
	if !e.catalog.Exists(k) || !form.Large() || !has.Has(form) {
		return nil, fmt.Errorf("%w: %s", ErrNotExist, e.catalog.Options.FileName(k, form))
	}
	if form == layout.CUDA && !e.HasGPU() {
		return nil, fmt.Errorf("%w: %s without a GPU", ErrNotExist, e.catalog.Options.FileName(k, form))
	}
	k.Part = e.catalog.Options.PartOf(form)
	as := e.schedule.newTurn()
	b, err := e.readers.hold(ctx, k, form, as)
	for err == nil && b.form != form {
		source, next := b, form
		if b.form == layout.CUDA || form == layout.CUDA && b.spec.Order != e.opts.Layout {
			next = e.catalog.TensorForm() // the pixels on the GPU have the batch's own form
		}
		b, err = e.readers.holdCopy(ctx, source, next, as)
		away := errors.Is(err, errAway)
		if away {
			e.forget(source)
		}
		if away || errors.Is(err, errGone) {
			b, err = e.readers.hold(ctx, k, form, as)
		}
	}
	if err != nil {
		return nil, err
	}
	return &File{batches: e.batches, batch: b}, nil
}

// Begin has a batch made, in a form, for an Open that will follow. It does not wait, and reports
// whether the batch is made already. It takes only memory that reading ahead may take. A batch is
// not begun if it does not fit, if it failed before, or if too many others were begun and not
// opened.
func (e *Engine) Begin(k Key, form layout.Form) (made bool) {
	c := e.catalog
	if !c.Exists(k) {
		return false
	}
	if !form.Large() || form == layout.CUDA && !e.HasGPU() {
		form = c.TensorForm()
	}
	k.Part = c.Options.PartOf(form)
	fits := c.Size(k, c.MadeIn(form)) <= e.memory.forBatches()
	e.mu.Lock()
	defer e.mu.Unlock()
	b := e.table[k]
	if b == nil && fits {
		e.streams.Begin(k, form)
	}
	return b != nil && b.state == ready
}

// A File is an open complete batch in one form. Its bytes stay valid and unchanged until
// Close.
type File struct {
	batches *batches
	batch   *batch
	closed  atomic.Bool
}

// Bytes is the whole file. It belongs to the engine: callers must not write to it, or use
// it after Close.
func (f *File) Bytes() []byte {
	if f.batch.form == layout.CUDA {
		return f.batch.document
	}
	return f.batch.buf.Bytes()
}

// Fd is the descriptor of a file that holds exactly Bytes, for the kernel to serve; -1 if
// there is none. It is valid until Close. A registration with the kernel stays valid after
// Close.
func (f *File) Fd() int {
	if f.batch.form == layout.CUDA {
		return -1
	}
	return f.batch.buf.Fd()
}

// Close releases the bytes. Closing twice panics.
func (f *File) Close() {
	if f.closed.Swap(true) {
		panic("engine: file closed twice")
	}
	f.batches.unhold(f.batch)
}
