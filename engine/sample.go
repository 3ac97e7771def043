package engine

import (
	"cmp"
	"errors"
	"fmt"

	"github.com/batchfs/batchfs/dataset"
	"github.com/batchfs/batchfs/decode"
	"github.com/batchfs/batchfs/decode/resample"
	"github.com/batchfs/batchfs/internal/catalog"
	"github.com/batchfs/batchfs/internal/fault"
	"github.com/batchfs/batchfs/internal/gpu"
	"github.com/batchfs/batchfs/internal/pixels"
	"github.com/batchfs/batchfs/internal/sample"
	"github.com/batchfs/batchfs/layout"
	"github.com/batchfs/batchfs/pinned"
)

// maxReplacements bounds the samples that are tried in place of a bad one, so that a batch of a
// dataset full of bad files takes seconds rather than days. The bytes of batches depend on it.
const maxReplacements = 1024

// A fetched sample is on its way into a slot.
type fetched struct {
	id     int64
	status catalog.Status
	seen   dataset.Identity // unknown if the file could not be opened
	data   []byte
	mask   catalog.Mask // if the part is a mask
	head   decode.Header
	packed bool // data was packed in memory, or on the disk
	toPack
	entries   bool // entry points are used or made
	transform resample.Transform
	job       pixels.Job
	needs     int64     // bytes that drawing takes beside the batch
	memory    []byte    // memory for the job
	drawErr   error     // the error of making the pixels, if any
	notRead   bool      // what is beside an image was not read, because the image, whose size is unknown, could not be read
	madeOnGPU bool      // the GPU made it
	slotOnGPU *gpu.Slot // where its pixels are if only the GPU has them; nil: they are in the batch's host memory
	replaces  string    // the path of the bad file that this sample replaces, and what is wrong with it
}

// toPack says why a sample is packed while it is drawn.
type toPack struct {
	packs  bool // for memory
	mix    mix  // the mix that it belongs to
	toDisk bool // for the disk
}

// pairable reports whether the sample that was fetched may gain from being decoded together with
// another one.
func (l *load) pairable() bool {
	p := &l.sample
	return l.pixelOptions.Pairs(p.head) && !(p.entries && l.entries.Found())
}

// fetchOrWait is fetch that waits for memory if there is too little.
func (l *load) fetchOrWait(id int64, st catalog.Status, whole bool) error {
	for {
		err := l.fetch(id, st, whole)
		if err != errNoRoom {
			return err
		}
		if err = l.batches.flow.room.await(l); err != nil {
			return err
		}
	}
}

// judge returns the outcome of the first attempt at an item, or of the attempts at all parts of its
// sample.
func (l *load) judge(err error) (judged error) {
	defer catch(&judged)
	if err = l.verdict(err); err == nil || fault.Of(err) == fault.File {
		err = l.joinParts(err)
	}
	return err
}

// A badSlot fills the slot of a load whose sample is bad.
type badSlot struct{ *load }

// applyOnError decides what becomes of the slot: a bad sample is handled as OnError says. An error
// from it ends the batch.
func (l badSlot) applyOnError(err error) (settled error) {
	defer catch(&settled)
	all, it := l.batches, l.item
	if err == nil || fault.Of(err) != fault.File || all.opts.OnError == Fail {
		return err
	}
	all.mu.Lock()
	if it.batch.onGPU != nil {
		it.batch.onGPU[it.slot] = false
	}
	all.mu.Unlock()
	switch all.opts.OnError {
	case Zero:
		return l.zero(err)
	case Replace:
		return l.replace(err)
	}
	return err
}

// reasonOf returns what was reported about a file that is at fault.
func reasonOf(err error) *badError {
	if bad, ok := errors.AsType[*badError](err); ok {
		return bad
	}
	return &badError{reason: err}
}

// zero fills the slot with the fill value. The fault may be in a file beside the sample's own; the
// reason then has its name.
func (l badSlot) zero(cause error) error {
	all, b, slot := l.batches, l.item.batch, l.item.slot
	bad := reasonOf(cause)
	reason := bad.reason.Error()
	if bad.path != "" && bad.path != all.catalog.Dataset.Path(int(b.slots[slot].ID)) {
		reason = bad.path + ": " + reason
	}
	if err := l.item.beginWriting(); err != nil {
		return err
	}
	defer l.item.endWriting()
	if b.key.Part.HasImages() {
		all.catalog.Converter.Fill(b.slotBytes(slot), b.spec, all.opts.Fill)
	}
	if b.key.Part.HasMasks() {
		all.catalog.Options.Masks.Fill(b.maskBytes(slot))
	}
	for i := range b.arrays {
		clear(b.arrayBytes(i, slot))
	}
	b.samples[slot] = catalog.Sample{ID: b.slots[slot].ID, Label: -1, Status: catalog.StatusZeroed, Reason: reason}
	return nil
}

// replace fills the slot with the next readable sample of the shard's range that fits; which one
// depends only on the dataset. The search ends if the batch is no longer wanted, and at any error
// that is not a file's fault.
func (l badSlot) replace(cause error) error {
	all, b := l.batches, l.item.batch
	s := l.item.source()
	bad := reasonOf(cause)
	l.sample.replaces = bad.path + ": " + bad.reason.Error()
	tried, looked := 0, 0
	for id := range all.catalog.Replacements(s) {
		if why := all.catalog.Dataset.Unread(int(id)); why != "" {
			return all.catalog.Unread(id, why)
		}
		h, wd := all.catalog.SizeOf(id)
		fits := h > 0 && all.catalog.Fits(b.images, h, wd)
		if looked++; fits || looked%1024 == 0 {
			if err := l.item.stillWanted(); err != nil {
				return err
			}
		}
		if !fits {
			continue
		}
		if tried++; tried > maxReplacements {
			return fmt.Errorf("%w; the %d samples after it that could replace it cannot be read either", cause, maxReplacements)
		}
		if err := l.tryReplacement(id); err == nil || fault.Of(err) != fault.File {
			return err
		}
	}
	return fmt.Errorf("%w; no sample of the shard can replace it", cause)
}

// tryReplacement fills the slot with all parts of a sample that replaces its own.
func (l badSlot) tryReplacement(id int64) (err error) {
	for _, l.part = range l.item.batch.parts {
		l.readBefore, l.input.asks = false, amount{}
		if err = l.fetchOrWait(id, catalog.StatusReplaced, false); err == nil {
			err = l.drawOne()
		}
		if err = l.verdict(err); err != nil {
			break
		}
	}
	return err
}

// verdict returns the outcome of an attempt. If too little of the file was read, there is another
// attempt: only what is found in the whole file counts. A sample whose file is bad is remembered
// and reported once; the error then wraps ErrBad.
func (l *load) verdict(err error) error {
	all, p := l.batches, &l.sample
	part := l.part
	if p.notRead {
		part = catalog.Images
	}
	bad, id := all.bad.where(part, p.id)
	if err == errKnownGood {
		return nil
	}
	if damaged := p.packed && fault.Of(err) == fault.File; damaged || errors.Is(err, decode.ErrPart) {
		if damaged { // the packed form is damaged, not the file, which is read again
			all.caches.cache.Drop(p.id)
			all.caches.disk.drop(p.id)
		}
		if err = l.fetchOrWait(p.id, p.status, true); err == nil {
			err = l.drawOne()
		}
	}
	switch {
	case err == nil:
		bad.wasRead(id)
		all.bad.knownGood.note(l.part, p.id, l.item.source().Epoch)
		return nil
	case errors.Is(err, ErrBad):
		return err
	case fault.Of(err) == fault.File:
		return bad.report(id, err, p.seen)
	case fault.Of(err) == fault.Machine, fault.Of(err) == fault.Memory:
		return fmt.Errorf("%s: %w", bad.ds.Path(int(id)), dataset.Reason(err))
	}
	return err
}

// fetch reads a sample for the worker's slot, judges it, and chooses its transform.
func (l *load) fetch(id int64, st catalog.Status, whole bool) (err error) {
	defer l.endFetch()
	defer catch(&err)
	all, b, epoch, p := l.batches, l.item.batch, l.item.source().Epoch, &l.sample
	*p = fetched{id: id, status: st, seen: unknownIdentity, replaces: p.replaces}
	if _, array := l.part.Array(); !array { // an array may be in no file
		l.beginFetch(id)
	}
	switch {
	case !whole && l.item.isKnownGood(l.part, id):
		return errKnownGood
	case l.part == catalog.Masks:
		return besideImage{l}.fetchMask(id, st)
	case l.part != catalog.Images:
		return besideImage{l}.fetchArray(id, st)
	}
	if err := cmp.Or(all.bad.check(id), all.bad.indexedMask(id)); err != nil {
		return err
	}
	aside := st == catalog.StatusReplaced || !l.item.shows(l.part) // it is not read as planned
	if p.data, p.seen, err = l.readSample(l.item, epoch, id, aside, whole); err != nil {
		return err
	}
	p.entries = !aside && l.entries != nil && l.gpu == nil && decode.Sniff(p.data) == decode.JPEG
	if p.entries && !l.entries.Partial() {
		l.entries.Find(id, p.seen, p.data)
	}
	head, h, width, err := l.loader.Judge(id, p.data)
	if err == nil && !all.catalog.Fits(b.images, h, width) {
		err = fmt.Errorf("%w: %dx%d does not fit the batch's %dx%d", sample.ErrUnfit, h, width, b.images.H, b.images.W)
	}
	if err == nil {
		err = sameOrientation(all.catalog, id, head)
	}
	if why := all.catalog.Dataset.Unread(int(id)); why != "" && errors.Is(err, sample.ErrUnfit) {
		err = all.catalog.Unread(id, why)
	}
	if err != nil {
		return err
	}
	p.head, p.transform = head, all.opts.Transform.Choose(epoch, id, h, width)
	if l.gpu != nil && l.gpu.takes(l) {
		return nil // it is planned later, unless the GPU makes it
	}
	return l.plan()
}

// plan decides how the pixels of a fetched sample are made, and leaves room for that.
func (l *load) plan() error {
	all, p := l.batches, &l.sample
	switch l.part {
	case catalog.Masks:
		p.job = pixels.Job{Memory: p.mask.Height * p.mask.Width * p.mask.Bytes}
		p.needs = decode.ValueNeeds(p.head)
	case catalog.Images:
		p.job = l.pixelOptions.PlanFor(p.head, p.transform, l.item.shows(l.part) && all.catalog.Converter.Direct(l.item.batch.spec.Order, p.transform.Flip))
		p.needs = l.pixelOptions.Needs(p.head)
	}
	if p.job.Memory > 0 {
		empty := pinned.NewHost(all.opts.Memory, nil)
		p.needs += empty.Plan(p.job.Memory)
	}
	err := all.flow.room.makeReady(l)
	l.readBefore = err == errNoRoom
	return err
}

// record notes what the slot shows.
func (l *load) record() {
	p, s := &l.sample, &l.item.batch.samples[l.item.slot]
	*s = l.batches.catalog.Sample(p.id, p.transform)
	s.Status, s.Reason = p.status, p.replaces
}

// finish makes the slot's pixels from what was decoded, and collects the decoder's other results.
func (l *load) finish(d *decode.Decoder, writer *layout.Writer, err error) error {
	all, it, p := l.batches, l.item, &l.sample
	if err == nil && l.item.shows(l.part) {
		height, width := p.transform.Size()
		writer.Begin(it.batch.slotBytes(it.slot), it.batch.spec, height, width, p.transform.Flip, all.opts.Fill)
		err = p.job.Finish(p.memory)
		writer.End()
	}
	if p.head.Format == decode.JPEG {
		jpegs := JPEGStats{JPEGs: d.TakeJPEGs()}
		if p.entries {
			jpegs.Entries = l.entries.End(d, p.id, p.seen, p.data, err)
		}
		all.meter.decoded(jpegs)
	}
	return err
}

// A partError is an error that might not occur with another transform of the same sample, in
// another epoch.
type partError struct {
	error
	epoch int
}

func (e partError) Unwrap() error { return e.error }
