package engine

import (
	"errors"
	"fmt"

	"github.com/batchfs/batchfs/dataset"
	"github.com/batchfs/batchfs/resample"
	"github.com/batchfs/batchfs/sample"
)

// errUnfit is a sample that is fine by itself, but does not fit its batch, whose shape
// follows from the index.
var errUnfit = sample.ErrUnfit

// fill decodes a sample into its slot, or does what OnError says. The error it
// returns ends the batch.
func (w *worker) fill(b *batch, slot int) error {
	e, id := w.engine, b.slots[slot].ID
	defer w.settle()
	err := w.decode(b, slot, id, statusOK)
	if err == nil || !isBad(err) {
		return err
	}
	switch e.opts.OnError {
	case Zero:
		e.converter.Fill(b.slotBytes(slot), b.spec, e.opts.Fill)
		b.outcomes[slot] = outcome{id: id, status: statusZeroed, blank: true}
		return nil
	case Replace:
		return w.replace(b, slot, err)
	}
	return err
}

// isBad tells a sample that cannot be read from a machine that cannot read.
func isBad(err error) bool { return errors.Is(err, ErrBad) }

// replace fills the slot with the next readable sample of the shard's range that
// fits. It is the same one every time, since nothing but the dataset decides.
func (w *worker) replace(b *batch, slot int, cause error) error {
	e, s := w.engine, b.slots[slot]
	for id := range e.standIns(s) {
		if h, width := e.indexedSize(id); h == 0 || e.opts.Resize == resample.None && (h > b.spec.H || width > b.spec.W) {
			continue
		}
		if err := w.decode(b, slot, id, statusReplaced); err == nil || !isBad(err) {
			return err
		}
	}
	return fmt.Errorf("%w; no sample of the shard can replace it", cause)
}

// decode reads a sample and decodes it into a slot. A sample that cannot be read
// is remembered and reported once; the error then wraps ErrBad.
func (w *worker) decode(b *batch, slot int, id int64, st status) error {
	e := w.engine
	if err := e.stillBad(id); err != nil {
		return err
	}
	o, err := w.tryDecode(b, slot, id, st == statusReplaced)
	switch {
	case err == nil:
		e.recovered(id)
		o.status = st
		b.outcomes[slot] = o
		return nil
	case errors.Is(err, ErrNoMemory), errors.Is(err, errDropped), errors.Is(err, ErrClosed), errors.Is(err, dataset.ErrStopped):
		return err
	}
	return e.reportBad(id, err)
}

func (w *worker) tryDecode(b *batch, slot int, id int64, replacement bool) (outcome, error) {
	data, err := w.load(b, b.slots[slot].Epoch, id, replacement)
	if err != nil {
		return outcome{}, err
	}
	head, h, width, err := w.loader.Judge(id, data)
	if err == nil {
		err = w.engine.fits(b, h, width)
	}
	if err != nil {
		return outcome{}, err
	}
	t := w.engine.transform.Choose(b.slots[slot].Epoch, id, h, width)
	err = w.render(b, slot, data, head, t)
	if err != nil && w.engine.opts.Resize == resample.RandomResizedCrop {
		err = partError{err}
	}
	return outcomeOf(id, t), err
}

// outcomeOf is what becomes of a sample that can be read.
func outcomeOf(id int64, t resample.Transform) outcome {
	h, w := t.Size()
	return outcome{id: id, height: int32(h), width: int32(w), crop: t.Crop, flip: t.Flip}
}

// fits checks an image against the batch it shall go into.
func (e *Engine) fits(b *batch, h, w int) error {
	if e.opts.Resize == resample.None && (h > b.spec.H || w > b.spec.W) {
		return fmt.Errorf("%w: %dx%d does not fit the batch's %dx%d", errUnfit, h, w, b.spec.H, b.spec.W)
	}
	return nil
}

// changed tells whether an error says that the file is no longer the indexed one.
func changed(err error) bool {
	return errors.Is(err, dataset.ErrChanged) || errors.Is(err, dataset.ErrMissing) || errors.Is(err, errUnfit)
}

// partError marks an error as errPart, in the same words.
type partError struct{ error }

func (e partError) Unwrap() []error { return []error{e.error, errPart} }
