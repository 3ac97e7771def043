package engine

import (
	"runtime"

	"github.com/batchfs/batchfs/decode"
	"github.com/batchfs/batchfs/pinned"
)

// A worker is an item worker: it decodes one sample at a time, into the slot where
// the sample belongs. What it needs for that, and keeps, does not depend on the
// batches.
type worker struct {
	engine  *Engine
	decoder *decode.Decoder
	input   pinned.Host // the encoded sample
	planar  pinned.Host // a decoded sample, before it is turned into planes
	charged int64       // scratch memory that the ledger knows of
}

func newWorker(e *Engine) *worker {
	o := e.opts
	return &worker{engine: e, decoder: decode.NewDecoder(decode.Options{
		Color: o.Color, IgnoreOrientation: o.IgnoreOrientation, MaxPixels: o.MaxPixels,
	})}
}

// run decodes slots until the engine closes. It keeps its thread: decoders run on
// it most of the time, and a thread is what a processor can be chosen for.
func (w *worker) run() {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	defer w.free()
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
	w.planar.Free()
	w.engine.ledger.release(useScratch, w.charged)
}

// settle makes the ledger agree with what the worker holds between samples.
func (w *worker) settle() {
	held := w.decoder.ScratchBytes() + w.input.Bytes() + w.planar.Bytes()
	if more := held - w.charged; more > 0 {
		w.engine.ledger.force(useScratch, more)
	} else {
		w.engine.ledger.release(useScratch, -more)
	}
	w.charged = held
}
