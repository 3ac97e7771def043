package engine

import (
	"github.com/batchfs/batchfs/decode"
	"github.com/batchfs/batchfs/decode/pixels"
	"github.com/batchfs/batchfs/decode/resample"
)

// render makes a sample's pixels in its slot: transformed, mirrored, normalised, and in the
// slot's order of axes.
func (w *worker) render(it item, data []byte, head decode.Header, t resample.Transform) error {
	e, spec, slot := w.engine, it.b.spec, it.b.slotBytes(it.slot)
	target := pixels.Target{Sink: w.writer}
	if e.converter.Direct(spec.Order, t.Flip) {
		target.Pix, target.Stride = slot, spec.W*spec.C
	}
	job := e.opts.pixels().Plan(head, t, target)
	var memory []byte
	var err error
	if job.Memory > 0 {
		if memory, err = w.grow(it, &w.pixels, job.Memory); err != nil {
			return err
		}
	}
	if err := w.beginDecode(it, head); err != nil {
		return err
	}
	defer w.endDecode()
	height, width := t.Size()
	w.writer.Begin(slot, spec, height, width, t.Flip, e.opts.Fill)
	err = job.Run(w.decoder, data, memory)
	w.writer.End()
	return err
}
