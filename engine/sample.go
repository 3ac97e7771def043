package engine

import (
	"errors"
	"fmt"

	"github.com/batchfs/batchfs/dataset"
	"github.com/batchfs/batchfs/dataset/sample"
	"github.com/batchfs/batchfs/decode"
	"github.com/batchfs/batchfs/decode/pixels"
	"github.com/batchfs/batchfs/decode/resample"
)

// maxStandIns bounds the samples that are tried in place of a bad one, so that a batch of a
// dataset full of bad files takes seconds rather than days. The bytes of batches depend on it.
const maxStandIns = 1024

// fill decodes a sample into its slot, or handles it as OnError says. An error from it ends
// the batch.
func (w *worker) fill(it item) (err error) {
	defer catch(&err)
	all, id := w.batches, it.b.slots[it.slot].ID
	err = w.decode(it, id, StatusOK)
	if err == nil || causeOf(err) != ofFile {
		return err
	}
	switch all.opts.OnError {
	case Zero:
		return w.zero(it, id, reasonOf(err).reason.Error())
	case Replace:
		return w.replace(it, err)
	}
	return err
}

// reasonOf is what was reported of a file that is at fault.
func reasonOf(err error) *badError {
	if bad, ok := errors.AsType[*badError](err); ok {
		return bad
	}
	return &badError{reason: err}
}

// zero fills the slot with the fill value.
func (w *worker) zero(it item, id int64, reason string) error {
	all, b := w.batches, it.b
	if err := all.beginWriting(it); err != nil {
		return err
	}
	defer all.endWriting(b)
	all.converter.Fill(b.slotBytes(it.slot), b.spec, all.opts.Fill)
	b.samples[it.slot] = Sample{ID: id, Label: -1, Status: StatusZeroed, Reason: reason}
	return nil
}

// replace fills the slot with the next readable sample of the shard's range that fits, which
// depends on the dataset only. The search ends if the batch is no longer wanted, and at any
// error that is not a file's fault.
func (w *worker) replace(it item, cause error) error {
	all, s := w.batches, it.b.slots[it.slot]
	bad := reasonOf(cause)
	it.instead = bad.path + ": " + bad.reason.Error()
	tried, looked := 0, 0
	for id := range all.catalog.replacements(s) {
		if why := all.ds.Unread(int(id)); why != "" {
			return all.catalog.unread(id, why)
		}
		h, wd := all.catalog.sizeOf(id)
		fits := h > 0 && all.catalog.fits(it.b.spec, h, wd)
		if looked++; fits || looked%1024 == 0 {
			if err := all.stillWanted(it); err != nil {
				return err
			}
		}
		if !fits {
			continue
		}
		if tried++; tried > maxStandIns {
			return fmt.Errorf("%w; the %d samples after it that could replace it cannot be read either", cause, maxStandIns)
		}
		if err := w.decode(it, id, StatusReplaced); err == nil || causeOf(err) != ofFile {
			return err
		}
	}
	return fmt.Errorf("%w; no sample of the shard can replace it", cause)
}

// decode reads a sample and decodes it into a slot. A sample whose file is bad is
// remembered and reported once; the error then wraps ErrBad.
func (w *worker) decode(it item, id int64, st Status) error {
	all := w.batches
	w.beginFetch(id)
	if err := all.bad.check(id); err != nil {
		return err
	}
	seen, err := w.tryDecode(it, id, st, false)
	if errors.Is(err, decode.ErrPart) {
		w.beginFetch(id)
		seen, err = w.tryDecode(it, id, st, true)
	}
	switch {
	case err == nil:
		all.bad.wasRead(id)
		return nil
	case causeOf(err) == ofFile:
		return all.bad.report(id, err, seen)
	case causeOf(err) == ofMachine, causeOf(err) == ofMemory:
		return fmt.Errorf("%s: %w", all.ds.Path(int(id)), dataset.Reason(err))
	}
	return err
}

// tryDecode is decode without the record of bad files. seen is the file that was read, unknown
// if it could not be opened. The error is decode.ErrPart if too little of it was read; only what is
// found in the whole file counts.
func (w *worker) tryDecode(it item, id int64, st Status, whole bool) (seen dataset.Identity, err error) {
	all, b, epoch := w.batches, it.b, it.b.slots[it.slot].Epoch
	data, seen, err := w.load(it, epoch, id, st == StatusReplaced, whole)
	entries := err == nil && st == StatusOK && w.entries != nil && decode.Sniff(data) == decode.JPEG
	if entries && !w.entries.Partial() {
		w.entries.Find(id, seen, data)
	}
	w.endFetch()
	if err != nil {
		return seen, err
	}
	head, h, width, err := w.loader.Judge(id, data)
	if err == nil && !all.catalog.fits(b.spec, h, width) {
		err = fmt.Errorf("%w: %dx%d does not fit the batch's %dx%d", sample.ErrUnfit, h, width, b.spec.H, b.spec.W)
	}
	if why := all.ds.Unread(int(id)); why != "" && errors.Is(err, sample.ErrUnfit) {
		err = all.catalog.unread(id, why)
	}
	if err != nil {
		return seen, err
	}
	t := all.opts.Transform.Choose(epoch, id, h, width)
	if err := all.beginWriting(it); err != nil {
		return seen, err
	}
	defer all.endWriting(b)
	e := encoded{id, seen, data, head, entries}
	if err = w.render(it, e, t); err == nil {
		b.samples[it.slot] = all.catalog.sample(id, t)
		b.samples[it.slot].Status, b.samples[it.slot].Reason = st, it.instead
	} else if all.opts.Transform.Mode == resample.RandomResizedCrop {
		err = partError{err, epoch}
	}
	return seen, err
}

// encoded is a sample that was read.
type encoded struct {
	id      int64
	seen    dataset.Identity
	data    []byte
	head    decode.Header
	entries bool // entry points are used or made
}

// render makes a sample's pixels in its slot: transformed, mirrored, normalised, and in the
// slot's order of axes.
func (w *worker) render(it item, e encoded, t resample.Transform) error {
	all, spec, slot := w.batches, it.b.spec, it.b.slotBytes(it.slot)
	target := pixels.Target{Sink: w.writer}
	if all.converter.Direct(spec.Order, t.Flip) {
		target.Pix, target.Stride = slot, spec.W*spec.C
	}
	job := w.pixelOptions.Plan(e.head, t, target)
	var memory []byte
	var err error
	if job.Memory > 0 {
		if memory, err = w.grow(&w.pixels, job.Memory); err != nil {
			return err
		}
	}
	height, width := t.Size()
	return all.schedule.processors.use(func(p *processor) error {
		if err := p.reserve(e.head, it.b, all.memory); err != nil {
			return err
		}
		if e.entries {
			w.entries.Begin(p.decoder)
		}
		w.writer.Begin(slot, spec, height, width, t.Flip, all.opts.Fill)
		err := job.Run(p.decoder, e.data, memory)
		w.writer.End()
		if e.head.Format == decode.JPEG {
			jpegs := JPEGStats{JPEGs: p.decoder.TakeJPEGs()}
			if e.entries {
				jpegs.Entries = w.entries.End(p.decoder, e.id, e.seen, e.data, err)
			}
			all.meter.decoded(jpegs)
		}
		return err
	})
}

// A partError is an error that another transform of the same sample, in another epoch, might not hit.
type partError struct {
	error
	epoch int
}

func (e partError) Unwrap() error { return e.error }
