package engine

import (
	"sync"
	"sync/atomic"

	"github.com/batchfs/batchfs/dataset"
	"github.com/batchfs/batchfs/decode"
	"github.com/batchfs/batchfs/internal/sample"
	"github.com/batchfs/batchfs/shard"
)

// diskForms have a local cache that has room for a whole dataset, and for more, keep samples packed
// beside their files, and read them in this form. No hit depends on what is packed, and when: of
// all other samples, the disk has the files.
//
// A nil diskForms keeps and reads nothing.
type diskForms struct {
	packed *dataset.Packed
	budget Budget
	rates  *rates
	alone  bool // nothing else decides by these rates
	fits   mix  // the samples that there is room for

	there bits         // samples that were seen or put there
	never bits         // samples that have no packed form to keep
	kept  atomic.Int64 // packed samples that were given to the disk
	read  atomic.Int64 // that came from it

	mu   sync.Mutex
	left int // samples until it is decided anew
	now  diskForm
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

// A diskForm is what is done now.
type diskForm struct {
	packs  bool // samples that are not packed yet are, as far as rates.affords
	reads  bool // packed samples are read, rather than their files
	reason string
}

const (
	// mostLarger is what a packed sample takes of the room on the disk at the most, as a multiple
	// of its file: larger ones are not kept.
	mostLarger = 1.5
	// decideAfter is after how many samples it is decided anew.
	decideAfter = 256
)

// openDiskForms returns nil if the dataset has no such local cache, or samples are to stay as they
// are.
func openDiskForms(c Budget, k *kept, m *memory) *diskForms {
	p, n := c.packedOnDisk(), c.Options.Samples
	if p == nil || !m.ledger.reserve(useIndex, 2*(n/8+8)) {
		return nil
	}
	d := &diskForms{packed: p, budget: c, rates: k.rates, alone: k.forms == nil, there: make(bits, n/64+1), never: make(bits, n/64+1)}
	all := int64(0)
	for id := range n {
		if d.may(id) {
			cost, _ := dataset.PackedCost(c.mostPacked(id))
			all += cost
		}
	}
	d.fits.packed = min(1, float64(p.Spare())/float64(max(1, all)))
	return d
}

// packedOnDisk is what the local cache can keep packed.
func (c Budget) packedOnDisk() *dataset.Packed {
	if o := c.Options; o.CacheForm == FormEncoded || o.DecodeOnDevice || o.NVJPEG != "" {
		return nil
	}
	return c.Dataset.KeptPacked(decode.Version())
}

// mostPacked is the most bytes that a packed sample may have on the disk.
func (c Budget) mostPacked(id int64) int64 {
	return int64(mostLarger * float64(c.encodedSize(int(id))))
}

// may says whether a sample can be packed there at all.
func (d *diskForms) may(id int64) bool {
	ds := d.budget.Dataset
	return ds.InStore(int(id)) && sample.CostOf(ds, int(id)) == shard.Encoded
}

// wants says whether a sample that an epoch reads is to be packed for the disk.
func (d *diskForms) wants(epoch int, id int64) bool {
	if d == nil || !d.fits.packs(id) || !d.may(id) || d.there.has(id) || d.never.has(id) {
		return false
	}
	return d.decide(epoch).packs && (d.budget.Options.CacheForm == FormPacked || d.rates.affords())
}

// load reads a packed sample, or what an epoch shows of it; false: it is not there, or its file is
// to be read.
func (d *diskForms) load(epoch int, id int64, l *load) (data []byte, read int64, seen dataset.Identity, ok bool) {
	if d == nil || !d.fits.packs(id) || !d.may(id) || !d.decide(epoch).reads {
		return nil, 0, unknownIdentity, false
	}
	first, part := l.loader.PackedPart(epoch, id)
	data, read, seen, ok = d.packed.Load(l.batches.ctx, int(id), first, l.input.grow, part)
	if d.there.set(id, ok); ok {
		d.read.Add(1)
	}
	return data, read, seen, ok
}

// keep gives a sample to the disk that was packed.
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

// decide says what is done in an epoch.
func (d *diskForms) decide(epoch int) diskForm {
	o := d.budget.Options
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.left--; d.left >= 0 {
		return d.now
	}
	d.left = decideAfter
	if d.now = (diskForm{true, true, "packed, as asked for"}); o.CacheForm == FormAuto {
		now := d.rates.measure(float64(o.drawers()), false, d.alone)
		d.now = besideFiles(now, float64(o.drawers()), float64(o.Epochs-1-epoch))
	}
	return d.now
}

// besideFiles is what is done with so many epochs to come. Samples are packed where that takes no
// time, as drawers wait for storage, or no more time than it saves until the end.
func besideFiles(now measured, drawers, epochs float64) diskForm {
	gain, storage := now.encoded-now.packed, now.storage*drawers
	switch {
	case !now.known:
		return diskForm{reads: true, reason: "encoded, until it is measured what takes longer"}
	case gain <= 0:
		return diskForm{reason: "encoded, as packed samples are not decoded faster"}
	case now.encoded+now.packing <= storage:
		return diskForm{packs: true, reason: "packed while processors wait for storage, and read as they are"}
	case now.encoded <= storage:
		return diskForm{reason: "encoded, as samples wait for storage rather than for processors"}
	case now.packing > epochs*gain:
		return diskForm{reads: true, reason: "packed where they are, as packing takes more than the epochs to come would save"}
	}
	return diskForm{true, true, "packed, as samples wait for processors rather than for storage"}
}

// stats says what the disk keeps in which form, and why; nil: it is not asked to pack.
func (d *diskForms) stats() *DiskFormStats {
	if d == nil {
		return nil
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return &DiskFormStats{Share: d.fits.packed, Reason: d.now.reason, Kept: d.kept.Load(), Read: d.read.Load()}
}
