package engine

import (
	"cmp"
	"errors"
	"fmt"

	"github.com/batchfs/batchfs/decode"
	"github.com/batchfs/batchfs/decode/resample"
	"github.com/batchfs/batchfs/internal/catalog"
	"github.com/batchfs/batchfs/internal/dataset"
	"github.com/batchfs/batchfs/internal/gpu"
	"github.com/batchfs/batchfs/internal/pixels"
	"github.com/batchfs/batchfs/internal/sample"
	"github.com/batchfs/batchfs/layout"
	"github.com/batchfs/batchfs/pinned"
	"github.com/batchfs/batchfs/shard"
)

// A fetched sample is on its way into a slot.
type fetched struct {
	seen   dataset.Identity // unknown if the file could not be opened
	data   []byte
	mask   catalog.Mask // if the part is a mask
	head   decode.Header
	packed bool // data was packed in memory, or on the disk
	toPack
	late      bool // the cache had no room for it when it was read
	entries   bool // entry points are used or made
	transform resample.Transform
	job       pixels.Job
	needs     int64     // bytes that drawing takes beside the batch
	memory    []byte    // memory for the job
	drawErr   error     // the error of making the pixels, if any
	notRead   bool      // what is beside an image was not read, because the image, whose size is unknown, could not be read
	madeOnGPU bool      // the GPU made it
	slotOnGPU *gpu.Slot // where its pixels are if only the GPU has them; nil: they are in the batch's host memory
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

// fetch reads the sample of a load's item, judges it, and chooses its transform. The error is
// errNoRoom if there is too little memory; the item then says how much it takes.
func (l *load) fetch() (err error) {
	defer l.endFetch()
	defer catch(&err)
	p, it := &l.sample, &l.item
	*p = fetched{seen: unknownIdentity}
	l.input.asked = 0
	if r := it.replaces; r != nil && it.id == noSample {
		if it.id, err = r.next(it); err != nil {
			return err
		}
	}
	l.beginFetch()
	switch {
	case !it.whole && it.isKnownGood():
		return errKnownGood
	case it.part == catalog.Masks:
		return besideImage{l}.fetchMask()
	case it.part != catalog.Images:
		return besideImage{l}.fetchArray()
	}
	return l.fetchImage(it.whole)
}

func (l *load) fetchImage(whole bool) (err error) {
	all, b, id, epoch, p := l.batches, l.item.batch, l.item.id, l.item.source().Epoch, &l.sample
	if err := cmp.Or(all.bad.check(shard.Slot{ID: id, Epoch: epoch}), all.bad.indexedMask(id)); err != nil {
		return err
	}
	aside := l.item.replaces != nil || !l.item.shows(l.item.part) // it is not read as planned
	if p.data, p.seen, err = l.readSample(aside, whole); err != nil {
		return err
	}
	p.entries = !aside && l.entries != nil && l.item.gpu == nil && decode.Sniff(p.data) == decode.JPEG
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
	if l.item.gpu != nil && l.item.gpu.takes(l) {
		return nil // it is planned later, unless the GPU makes it
	}
	return l.plan()
}

// plan decides how the pixels of a fetched sample are made, and leaves room for that.
func (l *load) plan() error {
	all, p := l.batches, &l.sample
	switch l.item.part {
	case catalog.Masks:
		p.job = pixels.Job{Memory: p.mask.Height * p.mask.Width * p.mask.Bytes}
		p.needs = decode.ValueNeeds(p.head)
	case catalog.Images:
		p.job = l.pixelOptions.PlanFor(p.head, p.transform, l.item.shows(l.item.part) && all.catalog.Converter.Direct(l.item.batch.spec.Order, p.transform.Flip))
		p.needs = l.pixelOptions.Needs(p.head)
	}
	if p.job.Memory > 0 {
		empty := pinned.NewHost(all.opts.Memory, nil)
		p.needs += empty.Plan(p.job.Memory)
	}
	err := all.flow.room.makeReady(l)
	l.item.again = err == errNoRoom
	return err
}

// record notes what the slot shows.
func (l *load) record() {
	s := &l.item.batch.samples[l.item.slot]
	*s = l.batches.catalog.Sample(l.item.id, l.sample.transform)
	if r := l.item.replaces; r != nil {
		s.Status, s.Reason = catalog.StatusReplaced, r.reason
	}
}

// finish makes the slot's pixels from what was decoded, and collects the decoder's other results.
func (l *load) finish(d *decode.Decoder, writer *layout.Writer, err error) error {
	all, it, p := l.batches, l.item, &l.sample
	if err == nil && l.item.shows(l.item.part) {
		height, width := p.transform.Size()
		writer.Begin(it.batch.slotBytes(it.slot), it.batch.spec, height, width, p.transform.Flip, all.opts.Fill)
		err = p.job.Finish(p.memory)
		writer.End()
	}
	if p.head.Format == decode.JPEG {
		jpegs := JPEGStats{JPEGs: d.TakeJPEGs()}
		if p.entries {
			jpegs.Entries = l.entries.End(d, it.id, p.seen, p.data, err)
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
