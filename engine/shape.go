package engine

import (
	"fmt"
	"iter"
	"math"

	"github.com/batchfs/batchfs/decode/resample"
	"github.com/batchfs/batchfs/internal/option"
	"github.com/batchfs/batchfs/layout"
	"github.com/batchfs/batchfs/shard"
)

// A Key names a batch. All three numbers count from 0.
type Key struct{ Shard, Epoch, Batch int }

// String is the batch's path below the mountpoint, without an extension.
func (k Key) String() string {
	return fmt.Sprintf("shard-%d/epoch-%d/%s", k.Shard, k.Epoch, layout.BatchName(k.Batch))
}

// Exists reports whether there is such a batch.
func (e *Engine) Exists(k Key) bool {
	return k.Shard >= 0 && k.Shard < e.opts.Shards && k.Epoch >= 0 && k.Epoch < e.opts.Epochs &&
		k.Batch >= 0 && k.Batch < e.plan.Batches(k.Shard, k.Epoch)
}

// Shards is the number of shards.
func (e *Engine) Shards() int { return e.opts.Shards }

// Epochs is the number of epochs.
func (e *Engine) Epochs() int { return e.opts.Epochs }

// Batches is the number of batches that a shard has in an epoch.
func (e *Engine) Batches(shard, epoch int) int { return e.plan.Batches(shard, epoch) }

// MaxBatches is an upper bound of the number of batches of any shard in any epoch.
func (e *Engine) MaxBatches() int { return e.maxBatches }

// Spec is the exact shape of a batch, in the mount's layout, from the plan and the index
// alone. If its Err is not nil, the batch cannot exist and Open returns ErrTooBig.
func (e *Engine) Spec(k Key) layout.Spec {
	slots, _ := e.plan.Batch(k.Shard, k.Epoch, k.Batch, make([]shard.Slot, 0, e.opts.BatchSize))
	return e.spec(slots)
}

// Valid is the number of slots of a batch that are not padding.
func (e *Engine) Valid(k Key) int {
	_, valid := e.plan.Size(k.Shard, k.Epoch, k.Batch)
	return valid
}

// spec is the shape of a batch of these slots. Samples of unknown size (unreadable when
// indexed) do not count. A batch of only such samples has the shape of the replacement for
// its first sample.
func (e *Engine) spec(slots []shard.Slot) layout.Spec {
	h, w := e.extent(slots)
	// A batch that cannot exist still has a shape and a size; opening it returns the error.
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

// standIns yields the candidates to replace a slot's sample, in order of preference: the
// samples that follow it in the shard's range, and then those from the beginning of the
// range.
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

// roundUp is the least multiple of multiple that is at least n. n is at least 1 and far
// from the largest int; multiple may be any number.
func roundUp(n, multiple int) int {
	if multiple <= 1 {
		return n
	}
	return ((n-1)/multiple + 1) * multiple
}

// saturating is a*b, capped at half of the largest int64 so that adding to it does not
// overflow. Both factors are at least 0.
func saturating[A, B int | int64](a A, b B) int64 {
	const most = math.MaxInt64 / 2
	if a > 0 && int64(b) > most/int64(a) {
		return most
	}
	return int64(a) * int64(b)
}

// indexedSize is the size of a sample according to the index, or 0x0 if it has none or
// exceeds MaxPixels. It never changes during a mount, because file sizes are derived from
// it.
func (e *Engine) indexedSize(id int64) (h, w int) {
	h, w = e.ds.Size(int(id), e.opts.IgnoreOrientation)
	if int64(h)*int64(w) > e.opts.MaxPixels {
		return 0, 0
	}
	return h, w
}

// Size is the exact size in bytes of a batch in one of its forms, or math.MaxInt64 if no
// file can be that large.
func (e *Engine) Size(k Key, f layout.Form) int64 {
	if f == layout.JSON {
		slots, _ := e.plan.Size(k.Shard, k.Epoch, k.Batch)
		return e.documentSize(slots)
	}
	return layout.Size(f, e.Spec(k))
}

// checkSizes rejects a fixed size that some image does not fit into.
func (e *Engine) checkSizes() error {
	if e.opts.Height == 0 || e.opts.Resize != resample.None {
		return nil
	}
	for i := range e.ds.Len() {
		h, w := e.indexedSize(int64(i))
		if h > e.opts.Height || w > e.opts.Width {
			return &option.Error{
				Field: "size", Rule: fmt.Sprintf("large enough for every image (%s is larger: %dx%d)", e.ds.Path(i), h, w),
				Value: fmt.Sprintf("%dx%d", e.opts.Height, e.opts.Width),
			}
		}
	}
	return nil
}
