package engine

import (
	"sync/atomic"

	"github.com/batchfs/batchfs/decode"
	"github.com/batchfs/batchfs/internal/dataset"
	"github.com/batchfs/batchfs/internal/sample"
	"github.com/batchfs/batchfs/shard"
)

// diskForms keep samples packed beside their files, and read them in this form, where a local cache
// has room for more than the whole dataset. Hits do not depend on which samples are packed, or
// when: of all others, the disk has the files.
//
// A nil diskForms keeps and reads nothing.
type diskForms struct {
	packed *dataset.LocalSamples
	budget Budget
	share  float64 // share of the samples that may be packed, for which there is room

	there bits         // samples that were seen or put on the disk
	never bits         // samples that have no packed form to keep
	kept  atomic.Int64 // packed samples that were given to the disk
	read  atomic.Int64 // packed samples that came from it
}

// bits are a set of samples.
type bits []atomic.Uint64

func (b bits) has(id int64) bool { return b[id/64].Load()>>(id%64)&1 != 0 }

func (b bits) set(id int64, in bool) {
	if in {
		b[id/64].Or(1 << (id % 64))
	} else {
		b[id/64].And(^(uint64(1) << (id % 64)))
	}
}

// mostLarger is the most room that a packed sample may take on the disk, as a multiple of its
// file's size. Larger ones are not kept.
const mostLarger = 1.5

// openDiskForms returns nil if the dataset has no such local cache, or if packing was not asked
// for.
func openDiskForms(c Budget, m *memory) *diskForms {
	p, n := c.packedOnDisk(), c.Options.Samples
	if p == nil || !m.ledger.reserve(useIndex, 2*(n/8+8)) {
		return nil
	}
	d := &diskForms{packed: p, budget: c, there: make(bits, n/64+1), never: make(bits, n/64+1)}
	all := int64(0)
	for id := range n {
		if d.may(id) {
			cost, _ := dataset.PackedCost(c.mostPacked(id))
			all += cost
		}
	}
	d.share = min(1, float64(p.Spare)/float64(max(1, all)))
	return d
}

// packedOnDisk is what the local cache can keep packed.
func (c Budget) packedOnDisk() *dataset.LocalSamples {
	if o := c.Options; o.CacheForm != FormPacked || o.DecodeOnDevice || o.NVJPEG != "" {
		return nil
	}
	return c.Dataset.KeptPacked(decode.Version())
}

// mostPacked is the most bytes that a packed sample may have on the disk.
func (c Budget) mostPacked(id int64) int64 {
	return int64(mostLarger * float64(c.encodedSize(int(id))))
}

// fits says whether there is room for a sample. Multiples of the golden ratio spread any range of
// numbers evenly over the circle.
func (d *diskForms) fits(id int64) bool {
	const golden = 0x9e3779b97f4a7c15
	return float64(uint64(id)*golden>>11) < d.share*(1<<53)
}

// may says whether a sample can be packed on the disk at all.
func (d *diskForms) may(id int64) bool {
	ds := d.budget.Dataset
	return ds.InStore(int(id)) && sample.CostOf(ds, int(id)) == shard.Encoded
}

// wants says whether a sample that was read should be packed for the disk.
func (d *diskForms) wants(id int64) bool {
	return d != nil && d.fits(id) && d.may(id) && !d.there.has(id) && !d.never.has(id)
}

// load reads a packed sample, or the part of it that an epoch shows; false: it is not there.
func (d *diskForms) load(epoch int, id int64, l *load) (data []byte, read int64, seen dataset.Identity, ok bool) {
	if d == nil || !d.fits(id) || !d.may(id) {
		return nil, 0, unknownIdentity, false
	}
	first, part := l.loader.PackedPart(epoch, id)
	data, read, seen, ok = d.packed.LoadPart(l.batches.ctx, int(id), first, l.input.grow, part)
	if d.there.set(id, ok); ok {
		d.read.Add(1)
	}
	return data, read, seen, ok
}

// keep gives a packed sample to the disk.
func (d *diskForms) keep(id int64, seen dataset.Identity, packed []byte) {
	if _, ok := dataset.PackedCost(int64(len(packed))); !ok || int64(len(packed)) > d.budget.mostPacked(id) {
		d.never.set(id, true)
		return
	}
	d.packed.Keep(int(id), seen, packed)
	d.there.set(id, true)
	d.kept.Add(1)
}

// drop removes a sample that is damaged.
func (d *diskForms) drop(id int64) {
	if d != nil {
		d.packed.Drop(int(id))
		d.there.set(id, false)
	}
}

// stats says what the disk keeps packed; nil: it was not asked to.
func (d *diskForms) stats() *DiskFormStats {
	if d == nil {
		return nil
	}
	return &DiskFormStats{Share: d.share, Kept: d.kept.Load(), Read: d.read.Load()}
}
