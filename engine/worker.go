package engine

import (
	"errors"
	"fmt"
	"runtime"
	"runtime/debug"
	"slices"
	"sync/atomic"

	"github.com/batchfs/batchfs/dataset"
	"github.com/batchfs/batchfs/decode"
	"github.com/batchfs/batchfs/engine/affinity"
	"github.com/batchfs/batchfs/layout"
	"github.com/batchfs/batchfs/pinned"
)

// A worker is an item worker: it decodes one sample at a time, directly into the sample's
// slot. The memory it holds does not depend on the batches.
type worker struct {
	engine  *Engine
	options decode.Options
	decoder *decode.Decoder
	loader  loader
	writer  *layout.Writer
	input   pinned.Host // the encoded sample
	pixels  pinned.Host // decoded pixels, if they differ from what the slot holds
	resize  pinned.Host // coefficients and rows of the resizer
	codecs  pinned.Use  // the decoder's memory, as the account has it
	charged int64       // the part of all these that the ledger has
	cpus    affinity.Set

	// The sample being read from storage, and since when, in the meter's time; 0: none.
	fetching      atomic.Int64
	fetchingSince atomic.Int64

	growInput func(n int) []byte // grows input for item; made once, as nothing is allocated for a sample
	refused   error              // why it did not

	// Guarded by Engine.mu; item is changed by the worker alone.
	item    item   // what it works on
	stalled bool   // its read hangs, and another worker stands in for it
	gave    uint64 // what Engine.scratchAsked was when it last gave its memory back
}

// A loader reads samples from storage and judges them. *sample.Loader is one.
type loader interface {
	Load(epoch int, id int64, whole bool, grow func(n int) []byte, stop <-chan struct{}) (data []byte, read int64, seen dataset.Identity, err error)
	Judge(id int64, data []byte) (head decode.Header, height, width int, err error)
}

func newWorker(e *Engine, cpus affinity.Set) *worker {
	o := e.opts.decoding()
	w := &worker{
		engine: e, options: o, decoder: decode.NewDecoder(o), loader: e.newLoader(), writer: layout.NewWriter(e.converter, e.opts.writing),
		input: pinned.NewHost(e.opts.Memory, e.inputs), pixels: pinned.NewHost(e.opts.Memory, e.rest),
		resize: pinned.NewHost(e.opts.Memory, e.rest), cpus: cpus,
	}
	w.growInput = func(n int) (p []byte) {
		p, w.refused = w.grow(w.item, &w.input, n)
		return p
	}
	return w
}

// startWorker adds an item worker. Engine.mu is held, or nothing runs yet.
func (e *Engine) startWorker(cpus affinity.Set) {
	w := newWorker(e, cpus)
	e.workers = append(e.workers, w)
	e.wait.Go(w.run)
}

// run decodes slots until the engine closes or has a surplus worker. It locks its OS
// thread, because CPU affinity belongs to a thread and decoders run on it most of the time.
// It never unlocks the thread, which ends with the goroutine, so that no other goroutine
// inherits the affinity.
func (w *worker) run() {
	e := w.engine
	runtime.LockOSThread()
	defer w.free()
	if err := affinity.Pin(w.cpus); err != nil {
		e.log.Warn("a worker stays where it is", "reason", err)
	}
	if err := w.presize(); err != nil {
		e.log.Warn("a worker could not allocate its buffers beforehand", "reason", err)
	}
	w.settle()
	for it, ok := e.claim(w); ok; it, ok = e.claim(w) {
		if it.b == nil {
			w.giveBack()
			continue
		}
		e.itemDone(it, w.make(it))
		w.settle()
	}
}

// giveBack frees what is kept for the next sample.
func (w *worker) giveBack() {
	w.decoder.Trim()
	w.input.Free()
	w.pixels.Free()
	w.resize.Free()
	w.settle()
}

// make fills a slot. A panic costs its batch, not the daemon, and the decoder, whose
// state is unknown then.
func (w *worker) make(it item) error {
	err := w.fillGuarded(it)
	w.endFetch()
	if err != nil && errors.As(err, new(*panicError)) {
		w.decoder = decode.NewDecoder(w.options)
	}
	return err
}

// fillGuarded is fill with a panic returned as an error. It is not a closure, to avoid an
// allocation per sample.
func (w *worker) fillGuarded(it item) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = &panicError{v, debug.Stack()}
		}
	}()
	return w.fill(it)
}

func (w *worker) free() {
	e := w.engine
	e.mu.Lock()
	e.workers = slices.DeleteFunc(e.workers, func(other *worker) bool { return other == w })
	e.mu.Unlock()
	w.decoder.Close()
	w.input.Free()
	w.pixels.Free()
	w.resize.Free()
	w.writer.Close()
	w.settle()
}

// grow makes one of the worker's buffers n bytes long, charging it before the allocation.
// If the kernel refuses, everything idle is given back and the kernel is asked once more.
func (w *worker) grow(it item, buf *pinned.Host, n int) ([]byte, error) {
	e := w.engine
	more := buf.Plan(n) - buf.Bytes()
	if more > 0 {
		if err := e.reserveScratch(it, more); err != nil {
			return nil, err
		}
		w.charged += more
	}
	p, err := buf.Grow(n)
	if err != nil && e.giveBackIdle() {
		p, err = buf.Grow(n)
	}
	if err == nil {
		return p, nil
	}
	if more > 0 {
		e.ledger.cancel(useScratch, more)
		w.charged -= more
	}
	return nil, fmt.Errorf("%w: %w", ErrNoMemory, err)
}

// beginDecode charges the most that a codec takes while it decodes one image, and waits for
// a processor. The number of images being decoded never exceeds the number of processors:
// extra workers overlap their waits for storage, but do not take time slices from one
// another. The order matters: a worker that has a processor never waits for memory.
func (w *worker) beginDecode(it item, head decode.Header) error {
	w.settle() // of an earlier attempt at this slot
	needs := w.decoder.Needs(head)
	if err := w.engine.reserveScratch(it, needs); err != nil {
		return err
	}
	w.charged += needs
	w.engine.processors <- struct{}{}
	return nil
}

// endDecode frees the processor for another worker. What the codec took stays charged until
// settle knows how much of it is kept.
func (w *worker) endDecode() { <-w.engine.processors }

// settle brings the accounts in line with what the worker holds between samples: a codec's
// scratch is known only after the fact, and buffers shrink.
func (w *worker) settle() {
	scratch := w.decoder.ScratchBytes()
	codecs := pinned.Use{Real: scratch, Reserved: scratch}
	w.engine.rest.Change(w.codecs, codecs)
	w.codecs = codecs
	held := scratch + w.input.Bytes() + w.pixels.Bytes() + w.resize.Bytes()
	if more := held - w.charged; more > 0 {
		w.engine.ledger.force(useScratch, more)
	} else if more < 0 {
		w.engine.ledger.release(useScratch, -more)
	}
	w.charged = held
}
