package engine

import (
	"errors"
	"fmt"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/batchfs/batchfs/dataset"
	"github.com/batchfs/batchfs/decode"
	"github.com/batchfs/batchfs/decode/pixels"
	"github.com/batchfs/batchfs/engine/affinity"
	"github.com/batchfs/batchfs/layout"
	"github.com/batchfs/batchfs/pinned"
)

// A worker is an item worker: it decodes one sample at a time, directly into the sample's
// slot. The memory it holds does not depend on the batches.
type worker struct {
	batches      *batches
	pixelOptions pixels.Options
	decoder      *decode.Decoder
	loader       loader
	writer       *layout.Writer
	input        pinned.Host // the encoded sample
	pixels       pinned.Host // decoded pixels, if they differ from what the slot holds, and the resizer's scratch
	codecs       pinned.Use  // the decoder's memory, as the account has it
	charged      int64       // the part of all these that the ledger has
	cpus         affinity.Set

	// The sample being read from storage, and since when, counted from crew.began; 0: none.
	fetching      atomic.Int64
	fetchingSince atomic.Int64

	growInput func(n int) []byte // grows input for item; made once, as nothing is allocated for a sample
	refused   error              // why it did not

	// Guarded by batches.mu; item is changed by the worker alone.
	item    item   // what it works on
	stalled bool   // its read hangs, and another worker stands in for it
	gave    uint64 // what batches.scratchAsked was when it last gave its memory back
}

// A loader reads samples from storage and judges them. *sample.Loader is one.
type loader interface {
	Load(epoch int, id int64, whole bool, grow func(n int) []byte, stop <-chan struct{}) (data []byte, read int64, seen dataset.Identity, err error)
	Judge(id int64, data []byte) (head decode.Header, height, width int, err error)
}

func newWorker(all *batches, cpus affinity.Set) *worker {
	o := pixels.Options{Options: all.opts.Decoding, FullJPEGs: all.opts.FullJPEGs, Kernel: all.kernels.resizing}
	w := &worker{
		batches: all, pixelOptions: o, decoder: decode.NewDecoder(o.Options), loader: all.newLoader(),
		writer: layout.NewWriter(all.converter, all.kernels.writing),
		input:  pinned.NewHost(all.opts.Memory, all.inputs), pixels: pinned.NewHost(all.opts.Memory, all.rest),
		cpus: cpus,
	}
	w.growInput = func(n int) (p []byte) {
		p, w.refused = w.grow(w.item, &w.input, n)
		return p
	}
	return w
}

// startWorker adds an item worker. The lock is held.
func (all *batches) startWorker(cpus affinity.Set) {
	w := newWorker(all, cpus)
	all.crew.workers = append(all.crew.workers, w)
	all.wait.Go(w.run)
}

// run decodes slots until the engine closes or has a surplus worker. It locks its OS
// thread, because CPU affinity belongs to a thread and decoders run on it most of the time.
// It never unlocks the thread, which ends with the goroutine, so that no other goroutine
// inherits the affinity.
func (w *worker) run() {
	all := w.batches
	runtime.LockOSThread()
	defer w.free()
	if err := affinity.Pin(w.cpus); err != nil {
		all.log.Warn("a worker stays where it is", "reason", err)
	}
	hints := all.opts.Hints
	if err := errors.Join(w.input.Presize(int(hints.Input)), w.pixels.Presize(int(hints.Scratch))); err != nil {
		all.log.Warn("a worker could not allocate its buffers beforehand", "reason", err)
	}
	w.chargeActual()
	for it, ok := all.claim(w); ok; it, ok = all.claim(w) {
		if it.b == nil {
			w.giveBack()
			continue
		}
		all.itemDone(it, w.make(it))
		w.chargeActual()
	}
}

// giveBack frees what is kept for the next sample.
func (w *worker) giveBack() {
	w.decoder.Trim()
	w.input.Free()
	w.pixels.Free()
	w.chargeActual()
}

// make fills a slot. A panic costs its batch, not the daemon, and the decoder, whose
// state is unknown then.
func (w *worker) make(it item) error {
	err := w.fill(it)
	w.endFetch()
	if err != nil && errors.As(err, new(*panicError)) {
		w.decoder = decode.NewDecoder(w.pixelOptions.Options)
	}
	return err
}

func (w *worker) free() {
	all := w.batches
	all.mu.Lock()
	all.crew.workers = without(all.crew.workers, w)
	all.mu.Unlock()
	w.decoder.Close()
	w.input.Free()
	w.pixels.Free()
	w.writer.Close()
	w.chargeActual()
}

// grow makes one of the worker's buffers n bytes long, charging it before the allocation.
// If the kernel refuses, everything idle is given back and the kernel is asked once more.
func (w *worker) grow(it item, buf *pinned.Host, n int) ([]byte, error) {
	all := w.batches
	more := buf.Plan(n) - buf.Bytes()
	if more > 0 {
		if err := all.memory.scratch(it.b, more); err != nil {
			return nil, err
		}
		w.charged += more
	}
	p, err := buf.Grow(n)
	if err != nil && all.memory.giveBackIdle() {
		p, err = buf.Grow(n)
	}
	if err == nil {
		return p, nil
	}
	if more > 0 {
		all.memory.ledger.cancel(useScratch, more)
		w.charged -= more
	}
	return nil, fmt.Errorf("%w: %w", ErrNoMemory, err)
}

// beginDecode charges the most that a codec takes while it decodes one image, and waits for
// a processor. The number of images being decoded never exceeds the number of processors:
// extra workers overlap their waits for storage, but do not take time slices from one
// another. The order matters: a worker that has a processor never waits for memory.
func (w *worker) beginDecode(it item, head decode.Header) error {
	w.chargeActual() // of an earlier attempt at this slot
	needs := w.decoder.Needs(head)
	if err := w.batches.memory.scratch(it.b, needs); err != nil {
		return err
	}
	w.charged += needs
	w.batches.schedule.processors <- struct{}{}
	return nil
}

// endDecode frees the processor for another worker. What the codec took stays charged until
// chargeActual knows how much of it is kept.
func (w *worker) endDecode() { <-w.batches.schedule.processors }

// chargeActual brings the accounts in line with what the worker holds between samples: a codec's
// scratch is known only after the fact, and buffers shrink.
func (w *worker) chargeActual() {
	scratch := w.decoder.ScratchBytes()
	codecs := pinned.Use{Real: scratch, Reserved: scratch}
	w.batches.rest.Change(w.codecs, codecs)
	w.codecs = codecs
	held := scratch + w.input.Bytes() + w.pixels.Bytes()
	if more := held - w.charged; more > 0 {
		w.batches.memory.ledger.force(useScratch, more)
	} else if more < 0 {
		w.batches.memory.ledger.release(useScratch, -more)
	}
	w.charged = held
}

// beginFetch notes that the worker begins to read a sample from storage.
func (w *worker) beginFetch(id int64) {
	w.fetching.Store(id)
	w.fetchingSince.Store(int64(time.Since(w.batches.crew.began)))
}

// endFetch notes that storage has answered.
func (w *worker) endFetch() {
	w.fetchingSince.Store(0)
	if w.batches.crew.stalled.Load() > 0 {
		w.batches.storageAnswered(w)
	}
}
