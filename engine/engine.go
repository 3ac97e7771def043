package engine

import (
	"context"
	"fmt"
	"runtime"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/batchfs/batchfs/cache"
	"github.com/batchfs/batchfs/dataset"
	"github.com/batchfs/batchfs/dataset/sample"
	"github.com/batchfs/batchfs/layout"
	"github.com/batchfs/batchfs/pinned"
)

// An Engine makes the batches of one dataset under one set of options. All of its methods
// are safe for concurrent use.
type Engine struct {
	catalog *Catalog
	batches *batches
	readers *readers
	memory  *memory
	cache   *cache.Cache // nil: no cache
	keeper  *keeper      // the cache's plan; nil: none
	bad     *badSamples
	meter   *meter
}

// New starts an engine: Workers item workers, BatchWorkers batch workers, and watchers for
// idle streams, memory and storage. Close ends all of them. The dataset must outlive the
// engine.
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
	c, err := NewCatalog(ds, o)
	if err != nil {
		return nil, err
	}
	o = c.Options
	converter, err := layout.NewConverter(o.DType, o.Decoding.Color.Channels(), o.Normalize)
	if err != nil {
		return nil, err
	}
	m := newMemory(&c.Options)
	m.reserve(useRuntime, runtimeBytes)
	m.reserve(useIndex, ds.MemoryBytes())
	e := &Engine{catalog: c, memory: m, meter: &meter{start: time.Now()}, bad: newBadSamples(ds, m.ledger, o.Logger)}
	all := &batches{
		catalog: c, ds: ds, opts: &c.Options, log: o.Logger, memory: m, bad: e.bad, meter: e.meter, converter: converter,
		inputs: pinned.NewAccount("input"), rest: pinned.NewAccount("scratch"),
		newLoader: func() loader { return sample.NewLoader(ds, o.Transform, o.Decoding) },
		table:     map[Key]*batch{}, tried: map[Key]bool{}, closing: make(chan struct{}),
	}
	all.itemWork.L, all.takeWork.L, all.quiet.L = &all.mu, &all.mu, &all.mu
	all.streams = &streams{catalog: c, depth: o.PrefetchDepth, shelf: all, byShard: map[int][]*stream{}}
	all.crew = newCrew(o.Workers, o.Logger, func(id int64) string { return ds.Path(int(id)) })
	all.crew.start = all.startWorker
	all.schedule = &schedule{
		streams: all.streams, crew: all.crew, batchWorkers: o.BatchWorkers, processors: make(chan struct{}, runtime.NumCPU()),
	}
	m.batches, e.batches = all, all // before the cache, which takes its memory from batches
	e.cache, e.keeper = openCache(c, m, e.meter.stalled)
	m.cache, m.keeper = e.cache, e.keeper
	all.cache, all.keeper = e.cache, e.keeper
	e.readers = &readers{batches: all, bad: e.bad, meter: e.meter, log: o.Logger, memoryWait: o.MemoryWait, checks: map[Key]*check{}}
	m.presize(c)
	return e, nil
}

func (e *Engine) start() {
	e.batches.start()
	e.keeper.start()
}

// Close ends all workers and frees all memory except that of open files, which is freed
// when they are closed. Pending Opens get ErrClosed. Close waits for images being decoded,
// but not for reads that hang in the kernel: in that case it returns an ErrLeftBehind that
// names them, within two seconds, and the dataset must stay open for them.
func (e *Engine) Close() error {
	if !e.batches.beginClosing() {
		return nil
	}
	e.keeper.close()
	return e.batches.awaitEnd(e.reading, e.free)
}

// reading names the samples and batches whose files are being read.
func (e *Engine) reading() []string {
	e.batches.mu.Lock()
	defer e.batches.mu.Unlock()
	names := e.batches.crew.fetching()
	for k := range e.readers.checks {
		names = append(names, k.String())
	}
	return names
}

// free frees everything. All workers must have ended.
func (e *Engine) free() {
	e.batches.free()
	e.cache.Close()
	e.memory.close()
}

// Catalog is what exists: the shapes, sizes and samples of all batches.
func (e *Engine) Catalog() *Catalog { return e.catalog }

// Errors lists the samples that could not be read, in the order of discovery.
func (e *Engine) Errors() []BadSample { return e.bad.all() }

// Reserve permanently takes bytes out of the memory limit, for the memory of the code that
// serves the batches. It may exceed the limit, which then leaves nothing for batches.
func (e *Engine) Reserve(bytes int64) { e.memory.reserve(useRuntime, bytes) }

// SetMemoryLimit changes the memory limit, in bytes, to at most Options.MemoryLimit.
// Memory that no reader uses is freed at once to meet it; open batches stay.
func (e *Engine) SetMemoryLimit(n int64) { e.memory.setLimit(n) }

// Usage is the memory limit and its use, in bytes.
func (e *Engine) Usage() (total, free, used int64) {
	_, used = e.memory.ledger.usage(useBatches)
	return e.memory.most, max(0, e.memory.most-used), used
}

// ProbeFile opens an empty file of the kind that holds batches, to test how the kernel
// treats it. The caller closes it.
func (e *Engine) ProbeFile() (fd int, closeFile func(), err error) {
	if fd, err = e.memory.store.File(); err != nil {
		return -1, nil, err
	}
	return fd, func() { _ = unix.Close(fd) }, nil
}

// Describe says what each slot of a batch shows. It comes from the catalog, without
// decoding. Only if bad samples are replaced or zeroed does it wait for the pixels, because
// the two must agree.
func (e *Engine) Describe(ctx context.Context, k Key) (Description, error) {
	if !e.catalog.Exists(k) {
		return Description{}, fmt.Errorf("%w: %s", ErrNotExist, k)
	}
	if e.catalog.Options.OnError == Fail {
		return e.catalog.Describe(k), nil
	}
	e.batches.mu.Lock()
	form := e.batches.streams.usualForm(k.Shard)
	e.batches.mu.Unlock()
	b, err := e.readers.hold(ctx, k, form)
	if err != nil {
		return Description{}, err
	}
	defer e.batches.unhold(b)
	d := b.description()
	d.Spec = d.Spec.In(e.catalog.Options.Layout)
	return d, nil
}

// Open returns a batch in one of its large forms, making it in the form that was asked for
// first. It waits until the batch is complete and, if the memory limit is used up, at most
// Options.MemoryWait for its turn. If ctx ends, the batch is still made for the other Opens
// that wait for it; if there are none, it is given up.
//
// Errors: ErrNotExist, ErrBad, ErrNoMemory, ErrTooBig, ErrMachine, ErrClosed, and ctx's own.
func (e *Engine) Open(ctx context.Context, k Key, form layout.Form) (*File, error) {
	if !e.catalog.Exists(k) || !form.Large() {
		return nil, fmt.Errorf("%w: %s.%s", ErrNotExist, k, form.Ext())
	}
	own := form
	if form == layout.PNG {
		own = e.catalog.tensorForm() // a picture is rendered from the pixels
	}
	b, err := e.readers.hold(ctx, k, own)
	if err != nil {
		return nil, err
	}
	if b.form != form {
		c, err := e.readers.holdCopy(ctx, b, form)
		e.batches.unhold(b) // the copy holds it
		if err != nil {
			return nil, err
		}
		b = c
	}
	return &File{batches: e.batches, batch: b}, nil
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
func (f *File) Bytes() []byte { return f.batch.buf.Bytes() }

// Fd is the descriptor of a file that holds exactly Bytes, for the kernel to serve; -1 if
// there is none. It is valid until Close. A registration with the kernel stays valid after
// Close.
func (f *File) Fd() int { return f.batch.buf.Fd() }

// Close releases the bytes. Closing twice panics.
func (f *File) Close() {
	if f.closed.Swap(true) {
		panic("engine: file closed twice")
	}
	f.batches.unhold(f.batch)
}
