package engine

import (
	"fmt"
	"iter"
	"math"

	"github.com/batchfs/batchfs/layout"
	"github.com/batchfs/batchfs/resample"
	"github.com/batchfs/batchfs/shard"
)

// A Key names a batch. All three count from 0.
type Key struct{ Shard, Epoch, Batch int }

// String is the batch's path below the mountpoint, without an extension.
func (k Key) String() string {
	return fmt.Sprintf("shard-%d/epoch-%d/%s", k.Shard, k.Epoch, layout.BatchName(k.Batch))
}

// Exists tells whether there is such a batch.
func (e *Engine) Exists(k Key) bool {
	return k.Shard >= 0 && k.Shard < e.opts.Shards && k.Epoch >= 0 && k.Epoch < e.opts.Epochs &&
		k.Batch >= 0 && k.Batch < e.plan.Batches(k.Shard, k.Epoch)
}

// Shards is the number of shards.
func (e *Engine) Shards() int { return e.opts.Shards }

// Epochs is the number of epochs.
func (e *Engine) Epochs() int { return e.opts.Epochs }

// Batches is the number of batches that a shard reads in an epoch.
func (e *Engine) Batches(shard, epoch int) int { return e.plan.Batches(shard, epoch) }

// MaxBatches is at least the number of batches of any shard in any epoch.
func (e *Engine) MaxBatches() int { return e.maxBatches }

// Spec is the exact shape of a batch, in the mount's layout, from the plan and the
// index alone. Its Err says where there can be no such batch, which Open refuses with
// ErrTooBig.
func (e *Engine) Spec(k Key) layout.Spec {
	slots, _ := e.plan.Batch(k.Shard, k.Epoch, k.Batch, make([]shard.Slot, 0, e.opts.BatchSize))
	return e.spec(slots)
}

// Valid is the number of slots of a batch that are no padding.
func (e *Engine) Valid(k Key) int {
	_, valid := e.plan.Size(k.Shard, k.Epoch, k.Batch)
	return valid
}

// spec is the shape of a batch of these slots. Samples whose size is unknown
// (unreadable when they were indexed) have no say in it; a batch of nothing else has
// the shape of what will stand in for the first.
func (e *Engine) spec(slots []shard.Slot) layout.Spec {
	h, w := e.extent(slots)
	// A batch that cannot exist has a shape and a size all the same; opening it says why.
	s, _ := layout.NewSpec(len(slots), h, w, e.opts.Color.Channels(), e.opts.DType, e.opts.Layout)
	return s
}

// extent is the height and width of each slot.
func (e *Engine) extent(slots []shard.Slot) (height, width int) {
	o := &e.opts
	if o.Height > 0 {
		return o.Height, o.Width
	}
	for i := range slots {
		h, w := e.indexedSize(slots[i].ID)
		height, width = max(height, h), max(width, w)
	}
	if height == 0 && len(slots) > 0 && o.OnError == Replace && e.sized {
		for id := range e.standIns(slots[0]) {
			if height, width = e.indexedSize(id); height > 0 {
				break
			}
		}
	}
	return roundUp(max(height, 1), o.PadMultiple), roundUp(max(width, 1), o.PadMultiple)
}

// standIns are the samples that may stand in for a slot's, the first that can be read
// and fits before all others: those that follow it in the shard's range, and then those
// from the range's beginning.
func (e *Engine) standIns(s shard.Slot) iter.Seq[int64] {
	return func(yield func(id int64) bool) {
		lo, hi := e.plan.RangeAt(s.Position)
		for n := int64(1); n < hi-lo; n++ {
			if !yield(e.plan.ID(s.Epoch, lo+(s.Position-lo+n)%(hi-lo))) {
				return
			}
		}
	}
}

// roundUp is the least multiple that is at least n, which is at least 1 and far from
// the largest int. The multiple may be any number.
func roundUp(n, multiple int) int {
	if multiple <= 1 {
		return n
	}
	return ((n-1)/multiple + 1) * multiple
}

// saturating is a*b, both at least 0, or half of the largest number where that is
// more: what is added to it does not overflow.
func saturating[A, B int | int64](a A, b B) int64 {
	const most = math.MaxInt64 / 2
	if a > 0 && int64(b) > most/int64(a) {
		return most
	}
	return int64(a) * int64(b)
}

// indexedSize is the size of a sample as the index has it, 0x0 when it has none
// or when the image is larger than it may be. It never changes during a mount:
// the sizes of files follow from it.
func (e *Engine) indexedSize(id int64) (h, w int) {
	h, w = e.ds.Size(int(id), e.opts.IgnoreOrientation)
	if int64(h)*int64(w) > e.opts.MaxPixels {
		return 0, 0
	}
	return h, w
}

// Size is the exact size in bytes of a batch in one of its forms; math.MaxInt64 where
// no file can be so large.
func (e *Engine) Size(k Key, f layout.Form) int64 {
	if f == layout.JSON {
		slots, _ := e.plan.Size(k.Shard, k.Epoch, k.Batch)
		return e.documentSize(slots)
	}
	return layout.Size(f, e.Spec(k))
}

// checkSizes refuses a fixed size that an image does not fit into.
func (e *Engine) checkSizes() error {
	if e.opts.Height == 0 || e.opts.Resize != resample.None {
		return nil
	}
	for i := range e.ds.Len() {
		h, w := e.indexedSize(int64(i))
		if h > e.opts.Height || w > e.opts.Width {
			return &shard.ConfigError{
				Field: "size", Rule: fmt.Sprintf("large enough for every image (%s is larger: %dx%d)", e.ds.Path(i), h, w),
				Value: fmt.Sprintf("%dx%d", e.opts.Height, e.opts.Width),
			}
		}
	}
	return nil
}
