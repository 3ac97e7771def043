package engine

import (
	"slices"
	"sync/atomic"
	"time"

	"github.com/batchfs/batchfs/internal/catalog"
	"github.com/batchfs/batchfs/internal/gpu"
	"github.com/batchfs/batchfs/layout"
	"github.com/batchfs/batchfs/pinned"
	"github.com/batchfs/batchfs/shard"
)

// A state is the stage that a batch has reached. Only schedule.move changes it.
type state uint8

const (
	wanted     state = iota // waits to be laid out, maybe for memory
	layingOut               // a batch worker lays it out; without memory, it goes back to wanted
	making                  // has memory, and its slots are handed out
	tried                   // all slots were handed out and tried; it waits to be assembled
	assembling              // a batch worker assembles it
	ready                   // its bytes never change again, until it is evicted
	failed                  // ended, with an error or evicted
)

// A batch is wanted, prefetched, open or kept. batches.mu guards its fields, except where noted.
//
// If a GPU makes samples of a batch for readers of the form CUDA, the batch has memory there as
// well. Once complete, it has that form, and only that memory. If the GPU made none of its samples
// after all, it is like any other batch.
//
// A copy is a batch that shows another batch, its source, in another form, maybe in the memory of a
// GPU. A single batch worker makes it, and it is not in the table. While it waits for memory, it
// does not hold its source, so the source may give way to other batches; the copy then ends, too,
// and the Open that waits for it starts again. Once it has memory, it holds its source while it is
// open or waited for. A copy that was made ahead, on a GPU, exists for as long as its source does,
// and does not hold it.
type batch struct {
	key   Key
	form  layout.Form // form of its bytes
	state state
	done  chan struct{} // closed when ready or failed
	err   error         // why it failed

	asked
	content
	placement
	progress
	copying
	counts
}

// asked says who wants a batch.
type asked struct {
	opened   bool // it was opened, so it no longer counts as "ahead"
	refs     int  // Opens that wait for it, plus files open on it
	waiting  int  // Opens that wait for it
	askedAs  turn // of the Open that waits longest; 0: none has waited
	openedAs turn // of the last Open

	triedAt uint64    // ledger.returns when a worker last took it to lay it out
	short   time.Time // since when it, or a load for it, waits for memory; zero: it does not wait
}

// content is what a batch shows. The first layout sets it; it is constant afterwards, except for
// the last two fields.
type content struct {
	slots   []shard.Slot
	valid   int
	items   int            // slots to decode; the slots after them repeat the last one
	parts   []catalog.Part // what is made of each sample
	order   []int32        // the items, in the order in which they are handed out; see item
	spec    layout.Spec
	size    int64            // size of its file; not set for a copy
	images  layout.Spec      // the shape of its images, which samples have to fit, even if the batch shows no images
	large   int64            // bytes that its largest sample may take while it is made, if that exceeds the room that is always there
	samples []catalog.Sample // what each slot shows, written by its drawer
	missing []shard.Slot     // samples that are replaced, filled with the fill value, or were tried in place of another one in vain
}

// placement is where the bytes of a batch are. It is constant while the batch is laid out.
type placement struct {
	buf    *pinned.Buffer
	pixels []byte // of its images
	masks  []byte // of its masks
	arrays []arrayPlace
	slot   *gpu.Slot // memory on the GPU: of a batch in the form CUDA, or one that may get that form
	onGPU  []bool    // the slots whose pixels are only on the GPU; nil: none

	document []byte // the file of the form CUDA
}

// progress says how far a batch in the making is.
type progress struct {
	todo     []int32 // items to hand out
	inFlight int     // items handed out that are neither done nor returned
	finished int     // items done
	writers  int     // users of the buffer: batch workers, and drawers writing into it
	bad      error   // the error of the first bad item; the batch fails with it once all others were tried
	badAt    int     // the number of that item
	outcomes outcomes
}

// outcomes tracks the parts of each sample, in a batch that replaces or zeroes bad samples and
// makes several parts of each. A sample is bad if any of its parts is.
type outcomes struct {
	left []int8          // by slot: how many parts are still to be tried; nil: there is one part
	bad  map[int32]error // what is wrong, by item
}

// copying relates a batch to the batches that show the same samples in other forms.
type copying struct {
	source *batch                 // what it is a copy of; nil: none
	holds  bool                   // it holds its source
	copies map[layout.Form]*batch // its copies
}

// counts are statistics.
type counts struct {
	hits  atomic.Int64 // samples served from the cache
	local atomic.Int64 // samples served from the local cache, as planned
	bytes atomic.Int64 // bytes read from storage for this batch
}

// assignSamples determines the samples of the batch and the shape that follows from them.
func (b *batch) assignSamples(c Budget) {
	b.slots, b.valid = c.Slots(b.key)
	b.items = b.valid
	if b.items == 0 && len(b.slots) > 0 {
		b.items = 1 // the batch consists of repetitions only
	}
	b.samples, b.missing = make([]catalog.Sample, len(b.slots)), nil
	b.images = c.SpecOf(b.slots)
	b.spec = c.Catalog.Options.SpecIn(b.images.In(b.form.OrderOf(c.Options.Layout)), b.key, b.form)
	b.size = layout.Size(b.form, b.spec)
	b.placeArrays(c)
	b.parts = c.partsOf(b.key.Part)
	if len(b.parts) > 1 && c.Options.OnError != Fail {
		b.outcomes = outcomes{slices.Repeat([]int8{int8(len(b.parts))}, b.items), map[int32]error{}}
	}
}

// A task is a kind of work for batch workers. Each worker does one kind only.
type task uint8

const (
	toMake task = iota
	toCopy      // into another form, which takes long
	toSend      // to the GPU, for readers there
	toSwap      // to and from the GPU, for batches with samples made there: host forms may wait for that
)

func (b *batch) task() task {
	switch {
	case b.isSent():
		return toSend
	case b.form == layout.CUDA || b.source != nil && b.source.form == layout.CUDA:
		return toSwap
	case b.source == nil:
		return toMake
	}
	return toCopy
}

// isSent reports whether a batch is a copy on the GPU.
func (b *batch) isSent() bool { return b.source != nil && b.form == layout.CUDA }

// isAway reports whether a slot's pixels are only on the GPU.
func (b *batch) isAway(slot int) bool { return b.onGPU != nil && b.onGPU[slot] }

// slotBytes are the pixels of one slot.
func (b *batch) slotBytes(i int) []byte {
	n := int(b.spec.SampleBytes())
	return b.pixels[i*n : (i+1)*n : (i+1)*n]
}

// maskBytes are the elements of a slot's mask; empty if the batch has no masks.
func (b *batch) maskBytes(i int) []byte {
	n := len(b.masks) / len(b.slots)
	return b.masks[i*n : (i+1)*n : (i+1)*n]
}

// assemble repeats the last sample in padded slots and writes the header. No worker decodes
// into the batch any more.
func (b *batch) assemble(c *Catalog) error {
	for i, s := range b.samples[:b.items] {
		if s.Status != catalog.StatusOK {
			b.missing = append(b.missing, b.slots[i])
		}
	}
	for i := b.items; i < len(b.slots); i++ {
		copy(b.maskBytes(i), b.maskBytes(b.items-1))
		for k := range b.arrays {
			copy(b.arrayBytes(k, i), b.arrayBytes(k, b.items-1))
		}
		if b.isAway(b.items - 1) {
			b.onGPU[i] = true
		} else if b.key.Part.HasImages() {
			copy(b.slotBytes(i), b.slotBytes(b.items-1))
		}
		b.samples[i] = b.samples[b.items-1]
	}
	for i := b.valid; i < len(b.slots); i++ {
		b.samples[i].Status = catalog.StatusPadded
	}
	return b.putHeader(c)
}

// place finds where the batch's images, masks and arrays are in its file.
func (b *batch) place(file []byte) {
	part := func(start, bytes int64) []byte { return file[start : start+bytes] }
	start := layout.DataOffset(b.form, b.spec)
	switch {
	case b.key.Part.HasImages():
		b.pixels = part(start, b.spec.Bytes())
	case b.key.Part.HasMasks():
		b.masks = part(start, b.spec.Bytes())
	}
	if b.key.Part == catalog.Both && b.spec.Targets.HasMasks {
		b.masks = part(layout.InSafeTensors(layout.MasksNPY, b.spec))
	}
	for i := range b.arrays {
		if a := &b.arrays[i]; a.at != nil {
			at, bytes := layout.InSafeTensors(layout.ArrayForm(i), b.spec)
			if b.form != layout.SafeTensors {
				at = start
			}
			a.bytes = part(at, bytes)
		}
	}
}

// putHeader writes everything but images, masks and arrays.
func (b *batch) putHeader(c *Catalog) (err error) {
	d := b.description()
	m := d.Meta()
	if b.form == layout.SafeTensors && b.spec.Targets.Text {
		if m.Text, err = c.Options.Targets.TextOf(d); err != nil {
			return err
		}
	}
	if b.form == layout.SafeTensors && b.spec.Targets.Boxes {
		if m.Rows, err = c.Options.Targets.RowsOf(d); err != nil {
			return err
		}
	}
	layout.PutHeader(b.form, b.spec, b.buf.Bytes(), m)
	return nil
}

// description describes a complete batch.
func (b *batch) description() catalog.Description {
	if b.source != nil {
		d := b.source.description()
		d.Spec = b.spec
		return d
	}
	return catalog.Description{Key: b.key, Spec: b.spec, Valid: b.valid, Samples: b.samples}
}

// refused reports whether the batch waits in the queue until memory comes back.
func (b *batch) refused() bool { return b.state <= layingOut && !b.short.IsZero() }
