package engine

import (
	"fmt"
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

// grow makes one of the worker's buffers n bytes long, charged before it is there.
func (w *worker) grow(b *batch, buf *pinned.Host, n int) ([]byte, error) {
	if more := pinned.HostBytes(n) - buf.Bytes(); more > 0 {
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

// settle makes the ledger agree with what the worker holds between samples: a
// codec's scratch is only known when it is there.
func (w *worker) settle() {
	held := w.decoder.ScratchBytes() + w.input.Bytes() + w.planar.Bytes()
	if more := held - w.charged; more > 0 {
		w.engine.ledger.force(useScratch, more)
	} else {
		w.engine.ledger.release(useScratch, -more)
	}
	w.charged = held
}
