package engine

import (
	"errors"
	"fmt"

	"github.com/batchfs/batchfs/dataset"
	"github.com/batchfs/batchfs/dataset/sample"
	"github.com/batchfs/batchfs/decode"
	"github.com/batchfs/batchfs/decode/pixels"
	"github.com/batchfs/batchfs/decode/resample"
	"github.com/batchfs/batchfs/gpu"
	"github.com/batchfs/batchfs/layout"
)

// maxStandIns bounds the samples that are tried in place of a bad one, so that a batch of a
// dataset full of bad files takes seconds rather than days. The bytes of batches depend on it.
const maxStandIns = 1024

// A fetched sample is on its way into a slot.
type fetched struct {
	id        int64
	status    Status
	seen      dataset.Identity // unknown if the file could not be opened
	data      []byte
	head      decode.Header
	entries   bool // entry points are used or made
	transform resample.Transform
	job       pixels.Job
	memory    []byte    // for the job
	drawn     error     // what became of the pixels
	made      bool      // on the GPU
	at        *gpu.Slot // where it is there alone; nil: it is in the batch's host memory
	instead   string    // the path of the bad file that it replaces, and what is wrong with that
}

// make fills the slot that the worker has claimed and, if the two samples can be decoded together, one for its
// mate. Both are of one batch, which needs both, so neither makes the other wait in vain. A panic costs the batch,
// not the daemon.
func (w *worker) make() {
	all := w.batches
	hands := all.claimPortion(w)
	if hands == nil && all.opts.NVJPEG != "" {
		hands = w.hands[:1]
	}
	if hands != nil {
		w.makePortion(hands)
		return
	}
	errs := [2]error{w.fetchFirst()}
	hands = w.hands[:1]
	if errs[0] == nil && len(w.hands) > 1 && w.pairable() && all.claimBeside(w) {
		hands = w.hands[:2]
		errs[1] = hands[1].fetchFirst()
	}
	if len(hands) > 1 && errs[1] == nil && hands[1].pairable() {
		errs = draw(hands)
	} else {
		for i, h := range hands {
			if errs[i] == nil {
				errs[i] = draw(h.hands[:1])[0]
			}
		}
	}
	for i, h := range hands {
		h.conclude(errs[i])
	}
}

// conclude is the end of the first attempt at a slot. The slot of a mate is handed back if there was no memory for it.
func (w *worker) conclude(err error) {
	err = w.settle(err)
	if w.mateOf != nil && err != nil && (causeOf(err) == ofTurn || causeOf(err) == ofMemory) {
		w.batches.handBack(w)
	} else {
		w.batches.itemDone(w.item, w.sample.at, err)
	}
}

// pairable reports whether the sample that was fetched may gain from being decoded together with another one.
func (w *worker) pairable() bool {
	p := &w.sample
	scaled := !w.pixelOptions.FullJPEGs && p.transform.Scale() > 1
	return w.pixelOptions.Pairs(p.head) && !scaled && !(p.entries && w.entries.Found())
}

// fetchFirst fetches the sample that belongs into the slot.
func (w *worker) fetchFirst() error {
	w.sample.instead = ""
	return w.fetch(w.item.b.slots[w.item.slot].ID, StatusOK, false)
}

// settle is what becomes of the slot after the first attempt: a failure is handled as OnError says. An error
// from it ends the batch.
func (w *worker) settle(err error) (settled error) {
	defer catch(&settled)
	err = w.verdict(err)
	if err == nil || causeOf(err) != ofFile {
		return err
	}
	it := w.item
	switch w.batches.opts.OnError {
	case Zero:
		return w.zero(it, it.b.slots[it.slot].ID, reasonOf(err).reason.Error())
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
	w.sample.instead = bad.path + ": " + bad.reason.Error()
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
		err := w.fetch(id, StatusReplaced, false)
		if err == nil {
			err = w.drawOne()
		}
		if err = w.verdict(err); err == nil || causeOf(err) != ofFile {
			return err
		}
	}
	return fmt.Errorf("%w; no sample of the shard can replace it", cause)
}

// verdict is what an attempt came to. If too little of the file was read, there is another one: only what is
// found in the whole file counts. A sample whose file is bad is remembered and reported once; the error then
// wraps ErrBad.
func (w *worker) verdict(err error) error {
	all, p := w.batches, &w.sample
	if errors.Is(err, decode.ErrPart) {
		if err = w.fetch(p.id, p.status, true); err == nil {
			err = w.drawOne()
		}
	}
	switch {
	case err == nil:
		all.bad.wasRead(p.id)
		return nil
	case errors.Is(err, ErrBad):
		return err
	case causeOf(err) == ofFile:
		return all.bad.report(p.id, err, p.seen)
	case causeOf(err) == ofMachine, causeOf(err) == ofMemory:
		return fmt.Errorf("%s: %w", all.ds.Path(int(p.id)), dataset.Reason(err))
	}
	return err
}

// fetch reads a sample for the worker's slot, judges it, and chooses its transform.
func (w *worker) fetch(id int64, st Status, whole bool) (err error) {
	defer w.endFetch()
	defer catch(&err)
	all, b, epoch, p := w.batches, w.item.b, w.item.b.slots[w.item.slot].Epoch, &w.sample
	*p = fetched{id: id, status: st, seen: unknownIdentity, instead: p.instead}
	w.beginFetch(id)
	if err := all.bad.check(id); err != nil {
		return err
	}
	if p.data, p.seen, err = w.load(w.item, epoch, id, st == StatusReplaced, whole); err != nil {
		return err
	}
	p.entries = st == StatusOK && w.entries != nil && !w.noParts && decode.Sniff(p.data) == decode.JPEG
	if p.entries && !w.entries.Partial() {
		w.entries.Find(id, p.seen, p.data)
	}
	head, h, width, err := w.loader.Judge(id, p.data)
	if err == nil && !all.catalog.fits(b.spec, h, width) {
		err = fmt.Errorf("%w: %dx%d does not fit the batch's %dx%d", sample.ErrUnfit, h, width, b.spec.H, b.spec.W)
	}
	if why := all.ds.Unread(int(id)); why != "" && errors.Is(err, sample.ErrUnfit) {
		err = all.catalog.unread(id, why)
	}
	if err == nil {
		p.head, p.transform = head, all.opts.Transform.Choose(epoch, id, h, width)
	}
	return err
}

// draw makes the pixels of samples that were fetched, one or two of a batch, in their slots: transformed, mirrored,
// normalised, and in the slots' order of axes. Of two, either may be left without memory (errNoRoom).
func draw(hands []*worker) (errs [2]error) {
	all, b := hands[0].batches, hands[0].item.b
	if err := all.beginWriting(hands[0].item); err != nil {
		return [2]error{err, err}
	}
	defer all.endWriting(b)
	all.adapt()
	all.schedule.processors.draw(hands)
	for i, h := range hands {
		if errs[i] = h.sample.drawn; errs[i] == nil {
			h.record()
		} else if all.opts.Transform.Mode == resample.RandomResizedCrop {
			errs[i] = partError{errs[i], b.slots[h.item.slot].Epoch}
		}
	}
	return errs
}

// record notes what the slot shows.
func (w *worker) record() {
	p, s := &w.sample, &w.item.b.samples[w.item.slot]
	*s = w.batches.catalog.sample(p.id, p.transform)
	s.Status, s.Reason = p.status, p.instead
}

// plan decides how a worker's sample, the first or second of its pair, is made, and finds memory for that.
func (p *processor) plan(i int, w *worker) (err error) {
	if err := w.batches.stillWanted(w.item); err != nil { // it may have waited long for the processor
		return err
	}
	f, target := &w.sample, pixels.Target{Sink: p.writers[i]}
	if b := w.item.b; w.batches.converter.Direct(b.spec.Order, f.transform.Flip) {
		target.Pix, target.Stride = b.slotBytes(w.item.slot), b.spec.W*b.spec.C
	}
	f.job = w.pixelOptions.Plan(f.head, f.transform, target)
	if f.job.Memory > 0 {
		f.memory, err = w.grow(&p.pixels[i], f.job.Memory, &p.charged)
	}
	if err == nil {
		err = p.reserve(i, w)
	}
	return err
}

// draw decodes the samples of one or two workers, and then makes the pixels of each. The second sample gets what memory the
// first one leaves.
func (p *processor) draw(hands []*worker) {
	var tasks [2]decode.Task
	var errs [2]error
	var able [2]*worker
	n := 0
	for _, h := range hands {
		if h.sample.drawn = p.plan(n, h); h.sample.drawn != nil {
			continue
		}
		if h.sample.entries {
			h.entries.Begin(p.decoders[n])
		}
		tasks[n], able[n] = h.sample.job.Task(h.sample.data, h.sample.memory), h
		n++
	}
	switch n {
	case 1:
		t := &tasks[0]
		errs[0] = p.decoders[0].DecodeRegion(t.To, t.Data, t.Header, t.Region, t.Scale)
	case 2:
		errs = decode.DecodePair(&p.decoders, &tasks)
	}
	for i, h := range able[:n] {
		h.sample.drawn = h.finish(p.decoders[i], p.writers[i], errs[i])
	}
}

// finish makes the slot's pixels of what was decoded, and takes from the decoder what else came of that.
func (w *worker) finish(d *decode.Decoder, writer *layout.Writer, err error) error {
	all, it, p := w.batches, w.item, &w.sample
	if err == nil {
		height, width := p.transform.Size()
		writer.Begin(it.b.slotBytes(it.slot), it.b.spec, height, width, p.transform.Flip, all.opts.Fill)
		err = p.job.Finish(p.memory)
		writer.End()
	}
	if p.head.Format == decode.JPEG {
		jpegs := JPEGStats{JPEGs: d.TakeJPEGs()}
		if p.entries {
			jpegs.Entries = w.entries.End(d, p.id, p.seen, p.data, err)
		}
		all.meter.decoded(jpegs)
	}
	return err
}

// A partError is an error that another transform of the same sample, in another epoch, might not hit.
type partError struct {
	error
	epoch int
}

func (e partError) Unwrap() error { return e.error }
