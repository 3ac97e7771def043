package engine

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"log/slog"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dgraph-io/ristretto/v2"
	"golang.org/x/sys/unix"

	"github.com/batchfs/batchfs/cache"
	"github.com/batchfs/batchfs/dataset"
	"github.com/batchfs/batchfs/decode"
	"github.com/batchfs/batchfs/decode/resample"
	"github.com/batchfs/batchfs/engine/affinity"
	"github.com/batchfs/batchfs/layout"
	"github.com/batchfs/batchfs/pinned"
	"github.com/batchfs/batchfs/shard"
)

// documentCacheBytes bounds the cache of rendered small documents.
const documentCacheBytes = 4 << 20

// An Engine makes the batches of one dataset under one set of options. All of its methods
// are safe for concurrent use.
type Engine struct {
	ds     *dataset.Dataset
	opts   Options
	plan   *shard.Plan
	ledger *Ledger
	store  *pinned.Store
	pool   *pinned.Pool
	log    *slog.Logger
	inputs *pinned.Account // encoded samples
	rest   *pinned.Account // other worker buffers
	cache  *cache.Cache    // nil: no cache
	keeper *keeper         // the cache's plan; nil: none

	transform   resample.Options
	converter   *layout.Converter
	maxBatches  int
	maxPath     int  // longest path, as JSON
	sized       bool // the index knows the size of at least one sample
	fingerprint string
	bad         badFiles
	errors      errorLog
	documents   *ristretto.Cache[uint64, []byte]
	cleared     atomic.Uint64 // counts how often they were cleared
	meter       meter
	processors  chan struct{} // one token per sample being decoded
	unlocked    atomic.Bool   // the warning that batch memory is not page-locked was logged

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
	quiet        sync.Cond // no batch is being made
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
	if err := o.validate(); err != nil {
		return nil, err
	}
	var raw *shard.RawSet
	if o.Shuffle {
		raw = RawSamples(ds)
		if err := checkOrder(ds, raw); err != nil {
			return nil, err
		}
	}
	plan, err := o.plan(int64(ds.Len()), raw)
	if err != nil {
		return nil, err
	}
	converter, err := layout.NewConverter(o.DType, o.Color.Channels(), o.Normalize)
	if err != nil {
		return nil, err
	}
	e := &Engine{
		ds: ds, opts: o, plan: plan, log: o.Logger,
		transform: o.transform(), converter: converter,
		ledger:     newLedger(o.MemoryLimit),
		table:      map[Key]*batch{},
		tried:      map[Key]bool{},
		checks:     map[Key]*check{},
		streams:    map[int][]*stream{},
		closing:    make(chan struct{}),
		processors: make(chan struct{}, runtime.NumCPU()),
	}
	e.itemWork.L, e.takeWork.L, e.quiet.L = &e.mu, &e.mu, &e.mu
	e.newLoader = func() loader { return NewLoader(ds, &e.opts) }
	e.look = ds.Check
	e.meter.start = time.Now()
	e.bad.files, e.bad.repaired = map[int64]badFile{}, map[int64]bool{}
	if err := e.checkSizes(); err != nil {
		return nil, err
	}
	e.measure()
	if e.documents, err = newDocumentCache(); err != nil {
		return nil, err
	}
	e.Reserve(runtimeBytes)
	index := ds.MemoryBytes() + documentCacheBytes
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

func newDocumentCache() (*ristretto.Cache[uint64, []byte], error) {
	return ristretto.NewCache(&ristretto.Config[uint64, []byte]{
		NumCounters: 1 << 14, MaxCost: documentCacheBytes, BufferItems: 64, IgnoreInternalCost: true,
	})
}

// RawSamples marks the samples that are stored as plain pixels. A shuffled dataset with
// both kinds orders each kind separately.
func RawSamples(ds *dataset.Dataset) *shard.RawSet {
	format, raw := "", false // of the previous sample: most have the same format
	return shard.NewRawSet(int64(ds.Len()), func(i int64) bool {
		if f := ds.Format(int(i)); f != format {
			format, raw = f, IsRaw(ds, int(i))
		}
		return raw
	})
}

// measure computes what the sizes of documents and directories are derived from.
func (e *Engine) measure() {
	for i := range e.ds.Len() {
		e.maxPath = max(e.maxPath, pathLength(e.ds.Path(i)))
		if h, _ := e.indexedSize(int64(i)); h > 0 {
			e.sized = true
		}
	}
	// All shards of an epoch have the same number of batches, and no epoch has more than
	// the first: unpadded reading credits what it has read ahead to later epochs.
	e.maxBatches = e.plan.Batches(0, 0)
	sum := sha256.New()
	fmt.Fprintf(sum, "%s\n%s\n%s\n%s\n", e.ds.Digest(), shard.OrderVersion, decode.Version(), resample.Version)
	_ = json.NewEncoder(sum).Encode(e.settings())
	e.fingerprint = hex.EncodeToString(sum.Sum(nil))
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
	e.documents.Close()
	e.cache.Close()
	e.pool.Close()
	_ = e.store.Close() // our own descriptor: no data can be lost
}

// ModTime is the newest modification time in the dataset. It is stable while the dataset
// is.
func (e *Engine) ModTime() time.Time { return e.ds.ModTime() }

// Fingerprint covers everything that the bytes of batches depend on.
func (e *Engine) Fingerprint() string { return e.fingerprint }

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
