package engine

import (
	"fmt"
	"slices"

	"github.com/batchfs/batchfs/layout"
)

// A batchWorker lays batches out, and assembles them once their slots are done. It does not wait in
// between, so a batch whose storage does not answer delays no other batch.
type batchWorker struct {
	batches *batches
	task    task
}

func (w batchWorker) run() {
	if w.task == toSend || w.task == toSwap {
		w.batches.device.near()
	}
	for {
		switch b, isDone := w.take(); {
		case b == nil:
			return
		case isDone:
			w.batches.finishAssembly(b, w.assemble(b))
		default:
			w.batches.finishLayout(b, w.layOut(b))
		}
	}
}

// take waits for a batch to lay out, or to assemble if all of its slots are done. It
// returns nil when the engine closes.
func (w batchWorker) take() (b *batch, isDone bool) {
	all := w.batches
	all.mu.Lock()
	defer all.mu.Unlock()
	s := all.schedule
	for !all.closed {
		if i := slices.IndexFunc(s.in[tried], func(b *batch) bool { return b.task() == w.task }); i >= 0 {
			b := s.in[tried][i]
			s.move(b, assembling)
			b.beginWork()
			return b, true
		}
		if b := s.nextToLayOut(w.task); b != nil {
			s.move(b, layingOut)
			b.beginWork()
			b.triedAt = all.memory.ledger.returns()
			return b, false
		}
		all.takeWork.Wait()
	}
	return nil, false
}

// layOut decides what is in the batch and allocates it.
func (w batchWorker) layOut(b *batch) (err error) {
	all := w.batches
	defer catch(&err)
	if b.task() == toSend {
		return all.device.findSlot(b)
	}
	if b.source != nil && !w.fitsBeside(b) {
		return errNoRoom
	}
	if b.slots == nil && b.source == nil {
		budget := Budget{all.catalog, all.opts}
		b.assignSamples(budget)
		b.order = b.inParts(all.caches.decodingOrder(b))
		if large := budget.largest(b.slots[:b.items], b.key.Part); large > 0 {
			all.mu.Lock()
			b.large = large
			all.mu.Unlock()
			return errLater
		}
	}
	slots := b.slots
	if b.source != nil {
		slots = b.source.slots
	}
	if err := all.catalog.ShapeKnown(slots, b.form); err != nil {
		return err
	}
	if err := b.spec.Err(); err != nil {
		return fmt.Errorf("%w: %w", ErrTooBig, err)
	}
	buf, err := all.memory.buffer(b, layout.Size(b.form, b.spec))
	if err != nil {
		return err
	}
	if b.buf = buf; b.form.Large() && all.catalog.MadeIn(b.form) == b.form {
		b.place(buf.Bytes())
	}
	if b.slot = all.device.slotAhead(b); b.slot != nil {
		b.onGPU = make([]bool, len(b.slots))
	}
	return nil
}

// fitsBeside reports whether there can ever be room for a copy beside its source. If not, the
// source goes as soon as nothing holds it, and the batch is made in the form that was asked for.
func (w batchWorker) fitsBeside(c *batch) bool {
	all := w.batches
	all.mu.Lock()
	defer all.mu.Unlock()
	source := c.source
	if source.buf == nil || layout.Size(c.form, c.spec)+int64(len(source.buf.Bytes())) <= all.memory.forBatches() || all.catalog.MadeIn(c.form) != c.form {
		return true
	}
	if source.refs == 0 && source.state == ready {
		all.discard(source)
	}
	return false
}

func (w batchWorker) assemble(b *batch) (err error) {
	all := w.batches
	defer catch(&err)
	switch b.task() {
	case toMake:
		err = b.assemble(all.catalog)
	case toCopy:
		err = w.copySource(b)
	case toSend:
		return all.device.send(b, b.source)
	case toSwap:
		if b.source != nil {
			return all.device.fetch(b)
		}
		if err = b.assemble(all.catalog); err != nil {
			return err
		}
		return all.device.send(b, b)
	}
	return err
}

// copySource makes the bytes of a copy.
func (w batchWorker) copySource(c *batch) error {
	all, source := w.batches, c.source
	switch c.form {
	case layout.MasksPNG:
		layout.PutMaskSheet(c.buf.Bytes(), c.spec, source.masks, source.valid)
		return nil
	case layout.PNG:
		frames, err := all.catalog.Options.Targets.Frames(source.description())
		all.catalog.Converter.PutSheet(c.buf.Bytes(), c.spec, source.pixels, source.valid, frames)
		return err
	}
	layout.Turn(c.buf.Bytes()[layout.DataOffset(c.form, c.spec):], c.spec.Order, source.pixels, source.spec, all.opts.Decoding.Kernel)
	return c.putHeader(all.catalog)
}
