package engine

import (
	"cmp"
	"context"
	"fmt"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/batchfs/batchfs/dataset"
	"github.com/batchfs/batchfs/dataset/sample"
	"github.com/batchfs/batchfs/decode"
	"github.com/batchfs/batchfs/decode/pixels"
	"github.com/batchfs/batchfs/engine/affinity"
	"github.com/batchfs/batchfs/pinned"
)

// A worker is an item worker: it decodes samples directly into their slots. The memory it holds does not depend
// on the batches.
//
// As many workers as there are processors have a mate, which is another set of everything that a sample needs: two
// JPEGs are decoded faster together. More workers only overlap their waits for storage, and need none: samples that wait
// for a processor go together (processor.go). Workers that use a GPU have many mates.
type worker struct {
	hands        []*worker // the worker, and its mate if it has one
	mateOf       *worker   // nil: it is a worker of its own
	sample       fetched   // what it works on
	batches      *batches
	pixelOptions pixels.Options
	loader       loader
	entries      *sample.Entries // nil: none are used
	input        pinned.Host     // the encoded sample
	noParts      bool            // JPEGs are read as a whole, for the GPU
	staging      *pinned.Buffer  // what the GPU reads and writes; nil: none yet
	drawnByOther chan struct{}   // another worker has drawn the sample
	charged      int64           // the part of all these that the ledger has
	cpus         affinity.Set

	fetching      atomic.Int64 // the sample being read from storage
	fetchingSince atomic.Int64 // since when, counted from crew.began; 0: none

	growInput func(n int) []byte // grows input for item; made once, as nothing is allocated for a sample
	refused   error              // why it did not

	// Guarded by batches.mu; item is changed by the worker alone.
	item    item      // what it works on
	stalled bool      // its read hangs, and another worker stands in for it
	lone    *batch    // there was no memory for its mate
	gave    time.Time // what batches.scratchAsked was when it last gave its memory back
}

// A loader reads samples from storage and judges them. *sample.Loader is one.
type loader interface {
	Load(ctx context.Context, epoch int, id int64, whole bool, grow func(n int) []byte) (data []byte, read int64, seen dataset.Identity, err error)
	Judge(id int64, data []byte) (head decode.Header, height, width int, err error)
}

func newWorker(all *batches, cpus affinity.Set) *worker {
	o := pixels.Options{Options: all.opts.Decoding, FullJPEGs: all.opts.FullJPEGs, Kernel: all.opts.Kernels.Resizing}
	var entries *sample.Entries
	if all.opts.Entries != nil && all.opts.NVJPEG == "" {
		entries = sample.NewEntries(all.ds, all.opts.Entries, all.opts.VerifyReads)
	}
	w := &worker{
		batches: all, pixelOptions: o, loader: all.newLoader(o, entries), entries: entries,
		input: pinned.NewHost(all.opts.Memory, all.inputs), cpus: cpus, drawnByOther: make(chan struct{}, 1),
	}
	w.growInput = func(n int) (p []byte) {
		p, w.refused = w.grow(&w.input, n, &w.charged)
		return p
	}
	w.hands = []*worker{w}
	return w
}

func (w *worker) addMate() {
	mate := newWorker(w.batches, w.cpus)
	mate.mateOf = w
	w.hands = append(w.hands, mate)
}

// pairing is the number of workers that may have a mate. Of a store, no worker has one, as it would wait for two answers in turn.
func (all *batches) pairing() int {
	if all.ds.Remote() {
		return 0
	}
	return min(all.crew.size, cap(all.schedule.processors.free))
}

// startWorker adds an item worker. The lock is held.
func (all *batches) startWorker(cpus affinity.Set) {
	w := newWorker(all, cpus)
	if len(all.crew.workers) < all.pairing() && all.opts.Decoding.Pairs(decode.Header{Format: decode.JPEG}) {
		w.addMate()
	}
	for n := all.deviceWorkers(); len(all.crew.workers) < n && len(w.hands) < all.mostHands(); {
		w.addMate()
	}
	all.crew.workers = append(all.crew.workers, w)
	all.wait.Go(w.run)
}

// run decodes slots until the engine closes or has a surplus worker. It locks its OS thread, to
// which CPU affinity belongs, and which ends with it, so that no other goroutine inherits that. It is a few percent faster, too,
// but not where samples come from a store: each answer would cost two switches of threads.
func (w *worker) run() {
	all := w.batches
	if len(w.cpus) > 0 || !all.ds.Remote() {
		runtime.LockOSThread()
	}
	defer w.free()
	if err := affinity.Pin(w.cpus); err != nil {
		all.log.Warn("a worker stays where it is", "reason", err)
	}
	for _, h := range w.hands[:min(2, len(w.hands))] {
		if err := h.input.Presize(int(all.opts.Hints.Input)); err != nil {
			all.log.Warn("a worker could not allocate its buffer beforehand", "reason", err)
		}
	}
	w.chargeActual()
	for it, ok := all.claim(w); ok; it, ok = all.claim(w) {
		if it.b == nil {
			all.schedule.processors.each((*processor).trim)
			w.giveBack()
			continue
		}
		w.make()
		w.chargeActual()
	}
}

// giveBack frees what is kept for the next sample.
func (w *worker) giveBack() {
	for _, h := range w.hands {
		h.input.Free()
	}
	if all := w.batches; all.share == nil || !all.share.off.Load() {
		w.freeStaging()
	}
	w.chargeActual()
}

func (w *worker) free() {
	all := w.batches
	all.mu.Lock()
	all.crew.workers = without(all.crew.workers, w)
	all.mu.Unlock()
	w.giveBack()
	w.freeStaging()
}

// room takes n bytes out of the memory limit for the worker's item. For a mate, nothing has to give way: its sample
// can be decoded alone.
func (w *worker) room(n int64) error {
	m := w.batches.memory
	if w.mateOf == nil {
		return m.scratch(w.item.b, n)
	}
	if !m.ledger.reserve(useScratch, n) {
		return errNoRoom
	}
	return nil
}

// grow makes a buffer for the worker's item n bytes long, charging it, in an account, before the allocation.
// If the kernel refuses, everything idle is given back and the kernel is asked once more.
func (w *worker) grow(buf *pinned.Host, n int, charged *int64) ([]byte, error) {
	m, more := w.batches.memory, max(0, buf.Plan(n)-buf.Bytes())
	if more > 0 {
		if err := w.room(more); err != nil {
			return nil, err
		}
		*charged += more
	}
	p, err := buf.Grow(n)
	if err != nil && m.giveBackIdle() {
		p, err = buf.Grow(n)
	}
	if err != nil {
		m.ledger.cancel(useScratch, more)
		*charged -= more
		return nil, fmt.Errorf("%w: %w", ErrNoMemory, err)
	}
	return p, nil
}

// chargeActual brings the accounts in line with what the worker holds between samples: buffers
// shrink.
func (w *worker) chargeActual() {
	for _, h := range w.hands {
		held := h.input.Bytes()
		w.batches.memory.ledger.correct(useScratch, held-h.charged)
		h.charged = held
	}
}

// reader is the worker to which the crew counts a read.
func (w *worker) reader() *worker { return cmp.Or(w.mateOf, w) }

func (w *worker) beginFetch(id int64) {
	w.reader().fetching.Store(id)
	w.reader().fetchingSince.Store(int64(time.Since(w.batches.crew.began)))
}

// endFetch notes that storage has answered.
func (w *worker) endFetch() {
	w.reader().fetchingSince.Store(0)
	if w.batches.crew.stalled.Load() > 0 {
		w.batches.storageAnswered(w.reader())
	}
}
