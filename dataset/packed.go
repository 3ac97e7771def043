package dataset

import (
	"context"

	"github.com/batchfs/batchfs/internal/tier"
)

// Packed are the samples that the local cache keeps in another form as well as in their files,
// where it has room for all files, and for more. What it keeps is an addition: whatever is damaged,
// or missing, is made anew of the files.
type Packed struct {
	samples Kept
	spare   int64
	code    string
}

// KeptPacked returns the samples in a form that programs of one kind make and read, which code
// names; nil: there is no local cache, or it has no more room than for the files.
func (d *Dataset) KeptPacked(code string) *Packed {
	if d.local == nil || d.local.samples || d.local.spare <= 0 {
		return nil
	}
	return &Packed{Kept{samples: d.reader, tier: d.local.tier}, d.local.spare, code}
}

// Spare is how many bytes of the local cache's limit are left beside the files; see [PackedCost].
func (p *Packed) Spare() int64 { return p.spare }

// PackedCost is what a packed sample of n bytes takes of the local cache; those of more than 8 MiB
// are not kept.
func PackedCost(n int64) (cost int64, ok bool) { return tier.Cost(n), n <= tier.ExtentBytes }

// of is sample i, which has the name of its file or of what it is a part of; see [Kept].
func (p *Packed) of(i int) (sample tier.Object, id Identity, ok bool) {
	sample, id, ok = p.samples.of(i)
	sample.Name += "\n" + p.code
	return sample, id, ok
}

// Load reads sample i, or the part of it that is needed, as [Dataset.LoadPart] does; first may be
// 0, for all. false: it is not there. The identity is that of its file.
func (p *Packed) Load(ctx context.Context, i int, first int64, grow func(n int) []byte, need Part) (data []byte, read int64, id Identity, ok bool) {
	sample, id, ok := p.of(i)
	if !ok {
		return nil, 0, unknown, false
	}
	if first == 0 {
		first = tier.ExtentBytes
	}
	data, read, ok = p.samples.tier.GetPart(&sample, first, grow, tier.Part(need))
	if !ok || p.samples.samples.storageOf(i).limit.takeAll(ctx, int(read)) != nil {
		return nil, 0, unknown, false
	}
	return data, read, id, true
}

// Keep has sample i kept, which was packed from a file with an identity. It copies the data, and
// waits for nothing.
func (p *Packed) Keep(i int, seen Identity, data []byte) {
	if sample, id, ok := p.of(i); ok && id == seen {
		sample.Size = int64(len(data))
		p.samples.tier.Put(&sample, data)
	}
}

// Drop removes sample i.
func (p *Packed) Drop(i int) {
	if sample, _, ok := p.of(i); ok {
		sample.Size = 1 // of whatever size
		p.samples.tier.Drop(&sample)
	}
}
