package engine

import (
	"errors"
	"fmt"

	"github.com/batchfs/batchfs/dataset"
	"github.com/batchfs/batchfs/dataset/sample"
	"github.com/batchfs/batchfs/decode/resample"
)

// errUnfit marks a valid sample that does not fit its batch, whose shape follows from the
// index.
var errUnfit = sample.ErrUnfit

// maxStandIns bounds the samples that are tried in place of a bad one, so that a batch of a
// dataset full of bad files takes seconds rather than days. It affects the bytes of
// batches.
const maxStandIns = 1024

// fill decodes a sample into its slot, or handles it as OnError says. An error from it ends
// the batch.
func (w *worker) fill(it item) error {
	e, id := w.engine, it.b.slots[it.slot].ID
	err := w.decode(it, id, StatusOK)
	if err == nil || causeOf(err) != ofFile {
		return err
	}
	switch e.opts.OnError {
	case Zero:
		return w.zero(it, id)
	case Replace:
		return w.replace(it, err)
	}
	return err
}

// zero fills the slot with the fill value.
func (w *worker) zero(it item, id int64) error {
	e, b := w.engine, it.b
	if err := e.beginWriting(it); err != nil {
		return err
	}
	defer e.endWriting(b)
	e.converter.Fill(b.slotBytes(it.slot), b.spec, e.opts.Fill)
	b.samples[it.slot] = Sample{ID: id, Label: -1, Status: StatusZeroed}
	return nil
}

// replace fills the slot with the next readable sample of the shard's range that fits. The
// result is deterministic, because it depends on the dataset only. The search ends if the
// batch is no longer wanted, and at any error that is not a file's fault.
func (w *worker) replace(it item, cause error) error {
	e, s := w.engine, it.b.slots[it.slot]
	tried, looked := 0, 0
	for id := range e.catalog.replacements(s) {
		if looked++; looked%1024 == 0 {
			if err := e.stillWanted(it); err != nil {
				return err
			}
		}
		if why := e.ds.Unread(int(id)); why != "" {
			return e.catalog.unread(id, why)
		}
		if h, wd := e.catalog.sizeOf(id); h == 0 || !e.catalog.fits(it.b.spec, h, wd) {
			continue
		}
		if tried++; tried > maxStandIns {
			return fmt.Errorf("%w; the %d samples after it that could replace it cannot be read either", cause, maxStandIns)
		}
		if err := w.decode(it, id, StatusReplaced); err == nil || causeOf(err) != ofFile {
			return err
		}
		if err := e.stillWanted(it); err != nil {
			return err
		}
	}
	return fmt.Errorf("%w; no sample of the shard can replace it", cause)
}

// decode reads a sample and decodes it into a slot. A sample whose file is bad is
// remembered and reported once; the error then wraps ErrBad.
func (w *worker) decode(it item, id int64, st Status) error {
	e := w.engine
	w.beginFetch(id)
	if err := e.bad.check(id); err != nil {
		return err
	}
	seen, err := w.tryDecode(it, id, st)
	switch {
	case err == nil:
		return nil
	case causeOf(err) == ofFile:
		return e.bad.report(id, err, seen)
	case causeOf(err) == ofMachine, causeOf(err) == ofMemory:
		return fmt.Errorf("%s: %w", e.ds.Path(int(id)), dataset.Reason(err))
	}
	return err
}

// tryDecode is decode without the record of bad files. seen is the identity of the file
// that was read, unknown if it could not be opened.
func (w *worker) tryDecode(it item, id int64, st Status) (seen dataset.Identity, err error) {
	e, b, epoch := w.engine, it.b, it.b.slots[it.slot].Epoch
	data, seen, err := w.load(it, epoch, id, st == StatusReplaced)
	w.endFetch()
	if err != nil {
		return seen, err
	}
	head, h, width, err := w.loader.Judge(id, data)
	if err == nil && !e.catalog.fits(b.spec, h, width) {
		err = fmt.Errorf("%w: %dx%d does not fit the batch's %dx%d", errUnfit, h, width, b.spec.H, b.spec.W)
	}
	if why := e.ds.Unread(int(id)); why != "" && errors.Is(err, errUnfit) {
		err = e.catalog.unread(id, why)
	}
	if err != nil {
		return seen, err
	}
	t := e.opts.Transform.Choose(epoch, id, h, width)
	if err := e.beginWriting(it); err != nil {
		return seen, err
	}
	defer e.endWriting(b)
	if err = w.render(it, data, head, t); err == nil {
		b.samples[it.slot] = e.catalog.sample(id, t)
		b.samples[it.slot].Status = st
	} else if e.opts.Transform.Mode == resample.RandomResizedCrop {
		err = partError{err}
	}
	return seen, err
}

// partError marks an error as errPart without changing its message.
type partError struct{ error }

func (e partError) Unwrap() []error { return []error{e.error, errPart} }
