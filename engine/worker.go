package engine

import (
	"fmt"
	"runtime"

	"github.com/batchfs/batchfs/affinity"
	"github.com/batchfs/batchfs/decode"
	"github.com/batchfs/batchfs/layout"
	"github.com/batchfs/batchfs/pinned"
	"github.com/batchfs/batchfs/sample"
)

// A worker is an item worker: it decodes one sample at a time, into the slot where
// the sample belongs. What it needs for that, and keeps, does not depend on the
// batches.
type worker struct {
	engine  *Engine
	options decode.Options
	decoder *decode.Decoder
	loader  *sample.Loader
	writer  *layout.Writer
	input   pinned.Host // the encoded sample
	pixels  pinned.Host // what was decoded of it, where that is not what the slot holds
	resize  pinned.Host // coefficients and rows of the resizer
	codecs  pinned.Use  // what the decoder holds, as the account knows it
	charged int64       // of all these, what the ledger knows of
}

func newWorker(e *Engine) *worker {
	o := e.opts.decoding()
	return &worker{
		engine: e, options: o, decoder: decode.NewDecoder(o), loader: NewLoader(e.ds, &e.opts), writer: layout.NewWriter(e.converter),
		input: pinned.NewHost(e.opts.Memory, e.inputs), pixels: pinned.NewHost(e.opts.Memory, e.rest),
		resize: pinned.NewHost(e.opts.Memory, e.rest),
	}
}

// run decodes slots until the engine closes. It keeps its thread: decoders run on
// it most of the time, and a thread is what a processor can be chosen for. The
// thread ends with it, so that no other goroutine inherits the choice.
func (w *worker) run(cpus affinity.Set) {
	runtime.LockOSThread()
	defer w.free()
	if err := affinity.Pin(cpus); err != nil {
		w.engine.log.Warn("a worker stays where it is", "reason", err)
	}
	if err := w.presize(); err != nil {
		w.engine.log.Warn("a worker could not have its buffers beforehand", "reason", err)
	}
	w.settle()
	for {
		b, slot := w.engine.claim()
		if b == nil {
			return
		}
		w.engine.itemDone(b, w.fill(b, slot))
	}
}

func (w *worker) free() {
	w.decoder.Close()
	w.input.Free()
	w.pixels.Free()
	w.resize.Free()
	w.writer.Close()
	w.settle()
}

// grow makes one of the worker's buffers n bytes long, charged before it is there.
func (w *worker) grow(b *batch, buf *pinned.Host, n int) ([]byte, error) {
	if more := buf.Plan(n) - buf.Bytes(); more > 0 {
		if err := w.engine.reserveScratch(b, more); err != nil {
			return nil, err
		}
		w.charged += more
	}
	p, err := buf.Grow(n)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNoMemory, err)
	}
	return p, nil
}

// settle makes the accounts agree with what the worker holds between samples: a
// codec's scratch is only known when it is there, and buffers shrink.
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
