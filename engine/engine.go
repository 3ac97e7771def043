package engine

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"log/slog"
	"runtime"
	"sync"
	"time"

	"github.com/dgraph-io/ristretto/v2"

	"github.com/batchfs/batchfs/dataset"
	"github.com/batchfs/batchfs/decode"
	"github.com/batchfs/batchfs/pinned"
	"github.com/batchfs/batchfs/shard"
)

// documentCacheBytes bounds the rendered small documents that are kept.
const documentCacheBytes = 4 << 20

// An Engine makes the batches of one dataset under one set of options. All of
// its methods are safe for concurrent use.
type Engine struct {
	ds     *dataset.Dataset
	opts   Options
	plan   *shard.Plan
	ledger *Ledger
	store  *pinned.Store
	pool   *pinned.Pool
	log    *slog.Logger

	maxBatches  int
	maxPath     int // longest path, as JSON
	fingerprint string
	bad         badFiles
	errors      errorLog
	documents   *ristretto.Cache[uint64, []byte]
	meter       meter
	processors  chan struct{} // one token a sample that is being decoded

	mu        sync.Mutex
	table     map[Key]*batch    // every batch that exists
	streams   map[int][]*stream // by shard, the most recently read first
	queue     []*batch          // wants a batch worker
	making    []*batch          // has one
	asked     uint64            // counts batches that somebody began to wait for
	idle      int               // batch workers without a batch
	idleItems int               // item workers without a sample
	giving    int               // batches that were told to give way and still hold memory
	decoding  int               // samples being decoded, with scratch memory of their own
	closed    bool
	itemWork  sync.Cond // a slot may be waiting to be decoded
	takeWork  sync.Cond // a batch may be waiting for a batch worker
	memory    sync.Cond // memory was given back
	closing   chan struct{}
	wait      sync.WaitGroup
}

// New starts an engine: Workers item workers, BatchWorkers batch workers, and a
// watch over idle streams, all of which Close ends. The dataset must outlive it.
func New(ds *dataset.Dataset, o Options) (*Engine, error) {
	e, err := build(ds, o)
	if err != nil {
		return nil, err
	}
	e.start()
	return e, nil
}

// build makes an engine whose workers have not been started.
func build(ds *dataset.Dataset, o Options) (*Engine, error) {
	if err := o.validate(); err != nil {
		return nil, err
	}
	var raw *shard.RawSet
	if o.Shuffle {
		raw = RawSamples(ds)
	}
	plan, err := o.plan(int64(ds.Len()), raw)
	if err != nil {
		return nil, err
	}
	e := &Engine{
		ds: ds, opts: o, plan: plan, log: o.Logger,
		ledger:     &Ledger{limit: o.MemoryLimit},
		table:      map[Key]*batch{},
		streams:    map[int][]*stream{},
		closing:    make(chan struct{}),
		processors: make(chan struct{}, runtime.NumCPU()),
	}
	e.itemWork.L, e.takeWork.L, e.memory.L = &e.mu, &e.mu, &e.mu
	e.meter.start = time.Now()
	e.bad.files, e.bad.mended = map[int64]badFile{}, map[int64]bool{}
	if err := e.checkSizes(); err != nil {
		return nil, err
	}
	e.measure()
	if e.documents, err = newDocumentCache(); err != nil {
		return nil, err
	}
	e.ledger.force(useRuntime, runtimeBytes)
	e.ledger.force(useIndex, ds.MemoryBytes()+documentCacheBytes)
	if e.store = pinned.NewAnonymousStore(); !o.Anonymous {
		e.store = pinned.NewStore(o.MemoryLimit)
	}
	e.pool = pinned.NewPool(e.store, batchBudget{e.ledger})
	e.presize()
	return e, nil
}

func newDocumentCache() (*ristretto.Cache[uint64, []byte], error) {
	return ristretto.NewCache(&ristretto.Config[uint64, []byte]{
		NumCounters: 1 << 14, MaxCost: documentCacheBytes, BufferItems: 64, IgnoreInternalCost: true,
	})
}

// RawSamples marks the samples that are stored as plain pixels: where a shuffled
// dataset has both kinds, each has an order of its own.
func RawSamples(ds *dataset.Dataset) *shard.RawSet {
	return shard.NewRawSet(int64(ds.Len()), func(i int64) bool {
		format, known := decode.ParseFormat(ds.Format(int(i)))
		return known && format.Raw()
	})
}

// measure takes what the sizes of documents and directories follow from.
func (e *Engine) measure() {
	for i := range e.ds.Len() {
		e.maxPath = max(e.maxPath, jsonLength(e.ds.Path(i)))
	}
	// All shards of an epoch have as many batches, and no epoch has more than the
	// first: unpadded reading credits what it has read ahead to later ones.
	e.maxBatches = e.plan.Batches(0, 0)
	sum := sha256.New()
	fmt.Fprintf(sum, "%s\n%s\n%s\n", e.ds.Digest(), shard.OrderVersion, decode.Version())
	_ = json.NewEncoder(sum).Encode(e.settings())
	e.fingerprint = hex.EncodeToString(sum.Sum(nil))
}

func (e *Engine) start() {
	for range e.opts.Workers {
		w := newWorker(e)
		e.wait.Go(w.run)
	}
	for range e.opts.BatchWorkers {
		e.wait.Go(e.batchWorker)
	}
	e.wait.Go(e.watchIdle)
}

// presizeBytes bounds what is allocated before anybody has asked for a batch.
const presizeBytes = 256 << 20

// presize allocates the buffers that one stream goes through, the batches ahead of
// its reader, the open one, and the one that is being let go, so that no reader
// waits for pages as well as for pixels. Where they are too large it is one
// buffer, or none. Without readers they go back like those of an idle stream.
func (e *Engine) presize() {
	size := e.Size(Key{}, formOf(e.opts.Layout))
	most := min(presizeBytes, e.opts.MemoryLimit/4)
	n := int64(e.opts.PrefetchDepth) + 2
	if n*size > most {
		n = 1
	}
	if size > most {
		return
	}
	for range n {
		if buf, err := e.pool.Get(size); err == nil {
			defer buf.Release() // when all are there
		}
	}
}

// Close ends all workers, waits for them, and frees all memory but that of open
// files, which their own Close frees. Opens that still wait get ErrClosed.
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
	e.memory.Broadcast()
	for _, b := range e.making {
		b.progress.Signal()
	}
	e.mu.Unlock()
	e.wait.Wait()

	e.mu.Lock()
	for _, b := range e.table {
		b.stream = nil
		if b.refs == 0 {
			e.forget(b)
		}
	}
	e.mu.Unlock()
	e.documents.Close()
	e.pool.Close()
	return e.store.Close()
}

// ModTime is the newest time of the dataset: stable for as long as it is unchanged.
func (e *Engine) ModTime() time.Time { return e.ds.ModTime() }

// Fingerprint covers everything the bytes of batches depend on.
func (e *Engine) Fingerprint() string { return e.fingerprint }

// ProbeFile opens a small file like those that batches live in, to try what the
// kernel does with it. The caller closes it.
func (e *Engine) ProbeFile() (fd int, closeFile func(), err error) {
	b, err := e.pool.Get(4096)
	if err != nil {
		return -1, nil, err
	}
	if b.Fd() < 0 {
		b.Release()
		return -1, nil, e.store.Reason()
	}
	return b.Fd(), b.Release, nil
}

// Usage is the memory limit and how it is used, in bytes.
func (e *Engine) Usage() (total, free, used int64) {
	_, used = e.ledger.usage(useBatches)
	return e.opts.MemoryLimit, max(0, e.opts.MemoryLimit-used), used
}
