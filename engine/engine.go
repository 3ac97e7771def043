package engine

import (
	"context"
	"fmt"
	"log/slog"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/batchfs/batchfs/cache"
	"github.com/batchfs/batchfs/dataset"
	"github.com/batchfs/batchfs/engine/affinity"
	"github.com/batchfs/batchfs/layout"
	"github.com/batchfs/batchfs/pinned"
)

// An Engine makes the batches of one dataset under one set of options. All of its methods
// are safe for concurrent use.
type Engine struct {
	catalog *Catalog
	ds      *dataset.Dataset // the catalog's
	opts    *Options         // the catalog's
	ledger  *Ledger
	store   *pinned.Store
	pool    *pinned.Pool
	log     *slog.Logger
	inputs  *pinned.Account // encoded samples
	rest    *pinned.Account // other worker buffers
	cache   *cache.Cache    // nil: no cache
	keeper  *keeper         // the cache's plan; nil: none

	converter  *layout.Converter
	bad        badFiles
	errors     errorLog
	meter      meter
	processors chan struct{} // one token per sample being decoded
	unlocked   atomic.Bool   // the warning that batch memory is not page-locked was logged

	newLoader func() loader
	look      func(i int) (dataset.Identity, error) // Dataset.Check
	fixed     atomic.Int64                          // bytes that never give way: the process, the index, what Reserve was told of
	stalled   atomic.Int32                          // item workers whose reads hang

	mu           sync.Mutex
	table        map[Key]*batch    // every batch that exists
	tried        map[Key]bool      // batches that failed when each of their samples had been tried
	checks       map[Key]*check    // of what is known to be bad
	streams      map[int][]*stream // by shard, the one begun last at the end
	queue        []*batch          // to be laid out, or waiting for memory
	layingOut    int               // batches that are being laid out
	making       []*batch          // their slots are handed out
	completed    []*batch          // to be assembled
	workers      []*worker         // item workers
	opens        uint64            // counts Opens
	idleItems    int               // item workers without a sample
	scratchAsked uint64            // counts how often those were asked for their memory
	released     uint64            // counts buffers that went back to the pool
	trimmedAfter uint64            // what that was when the cache last had the pool trimmed
	trimmed      time.Time         // when that was
	closed       bool
	itemWork     sync.Cond // a slot may be waiting to be decoded
	takeWork     sync.Cond // a batch may be waiting for a batch worker
	closing      chan struct{}
	wait         sync.WaitGroup
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
	catalog, err := NewCatalog(ds, o)
	if err != nil {
		return nil, err
	}
	o = catalog.Options
	converter, err := layout.NewConverter(o.DType, o.Decoding.Color.Channels(), o.Normalize)
	if err != nil {
		return nil, err
	}
	e := &Engine{
		catalog: catalog, ds: ds, opts: &catalog.Options, log: o.Logger, converter: converter,
		ledger:     newLedger(o.MemoryLimit),
		table:      map[Key]*batch{},
		tried:      map[Key]bool{},
		checks:     map[Key]*check{},
		streams:    map[int][]*stream{},
		closing:    make(chan struct{}),
		processors: make(chan struct{}, runtime.NumCPU()),
	}
	e.itemWork.L, e.takeWork.L = &e.mu, &e.mu
	e.newLoader = func() loader { return NewLoader(ds, e.opts) }
	e.look = ds.Check
	e.meter.start = time.Now()
	e.bad.files, e.bad.repaired = map[int64]badFile{}, map[int64]bool{}
	e.Reserve(runtimeBytes)
	index := ds.MemoryBytes()
	e.ledger.force(useIndex, index)
	e.fixed.Add(index)
	if e.store = pinned.NewAnonymousStore(); !o.Anonymous {
		e.store = pinned.NewStore(o.MemoryLimit)
	}
	e.pool = pinned.NewPool(e.store, batchBudget{e.ledger}, pinned.PoolOptions{Lock: o.Lock, Growth: o.Memory.HostGrowth})
	e.inputs, e.rest = pinned.NewAccount("input"), pinned.NewAccount("scratch")
	e.openCache()
	e.checkLimit()
	e.presize()
	return e, nil
}

func (e *Engine) start() {
	e.mu.Lock()
	defer e.mu.Unlock()
	for i := range e.opts.Workers {
		var cpus affinity.Set
		if e.opts.Affinity != nil {
			cpus = e.opts.Affinity[i]
		}
		e.startWorker(cpus)
	}
	for range e.opts.BatchWorkers {
		e.wait.Go(e.batchWorker)
	}
	e.wait.Go(e.watchIdle)
	e.wait.Go(e.watchMemory)
	e.wait.Go(e.watchStorage)
	e.keeper.start()
}

// Close ends all workers and frees all memory except that of open files, which is freed
// when they are closed. Pending Opens get ErrClosed. Close waits for images being decoded,
// but not for reads that hang in the kernel: in that case it returns an ErrLeftBehind that
// names them, within two seconds, and the dataset must stay open for them.
func (e *Engine) Close() error {
	e.mu.Lock()
	if e.closed {
		e.mu.Unlock()
		return nil
	}
	e.closed = true
	close(e.closing)
	e.itemWork.Broadcast()
	e.takeWork.Broadcast()
	e.mu.Unlock()
	e.keeper.close()
	return e.awaitWorkers()
}

// free frees everything. All workers must have ended.
func (e *Engine) free() {
	e.mu.Lock()
	for _, b := range e.table {
		b.leaveStream()
		if b.refs == 0 {
			b.state = failed
			e.forget(b)
		}
	}
	e.mu.Unlock()
	e.cache.Close()
	e.pool.Close()
	_ = e.store.Close() // our own descriptor: no data can be lost
}

// Catalog is what exists: the shapes, sizes and samples of all batches.
func (e *Engine) Catalog() *Catalog { return e.catalog }

// Errors lists the samples that could not be read, in the order of discovery.
func (e *Engine) Errors() []BadSample { return e.errors.all() }

// Describe says what each slot of a batch shows. It comes from the catalog, without
// decoding. Only if bad samples are replaced or zeroed does it wait for the pixels, because
// the two must agree.
func (e *Engine) Describe(ctx context.Context, k Key) (Description, error) {
	if !e.catalog.Exists(k) {
		return Description{}, fmt.Errorf("%w: %s", ErrNotExist, k)
	}
	if e.opts.OnError == Fail {
		return e.catalog.Describe(k), nil
	}
	b, err := e.ready(ctx, k, e.usualForm(k.Shard))
	if err != nil {
		return Description{}, err
	}
	defer e.unref(b, nil)
	d := b.description()
	d.Spec = d.Spec.In(e.opts.Layout)
	return d, nil
}

// usualForm is the form that readers of the shard opened last.
func (e *Engine) usualForm(shard int) layout.Form {
	e.mu.Lock()
	defer e.mu.Unlock()
	if list := e.streams[shard]; len(list) > 0 {
		return list[len(list)-1].form
	}
	return e.catalog.tensorForm()
}

// ProbeFile opens an empty file of the kind that holds batches, to test how the kernel
// treats it. The caller closes it.
func (e *Engine) ProbeFile() (fd int, closeFile func(), err error) {
	if fd, err = e.store.File(); err != nil {
		return -1, nil, err
	}
	return fd, func() { _ = unix.Close(fd) }, nil
}

// Reserve permanently takes bytes out of the memory limit, for the memory of the code that
// serves the batches. It may exceed the limit, which then leaves nothing for batches.
func (e *Engine) Reserve(bytes int64) {
	e.fixed.Add(bytes)
	for !e.ledger.reserve(useRuntime, bytes) {
		if e.pool == nil || e.pool.Trim() == 0 && e.keeper.giveWay() == 0 {
			e.ledger.force(useRuntime, bytes)
			return
		}
	}
}

// Usage is the memory limit and its use, in bytes.
func (e *Engine) Usage() (total, free, used int64) {
	_, used = e.ledger.usage(useBatches)
	return e.opts.MemoryLimit, max(0, e.opts.MemoryLimit-used), used
}
