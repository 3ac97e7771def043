package dataset

import (
	"cmp"
	"context"
	"fmt"
	"hash/maphash"
	"slices"

	"github.com/batchfs/batchfs/internal/tier"
)

// LocalSamples are the single samples in the local cache, if it keeps these: the caller chooses
// which. The cache keeps them as they are in their files. If there is room for all files and more,
// it also keeps some in another form. Those are extra: a damaged or missing one is made from its
// file again.
type LocalSamples struct {
	samples *reader
	tier    *tier.Tier
	earlier []uint32 // by sample, how many earlier ones have the same bytes; nil: none
	form    string   // names the format and version of the samples; "": as in the files
	Spare   int64    // bytes of the local cache's limit that the files leave; see [PackedCost]
}

// chooseLocal makes the local cache keep single samples if not everything fits and it may; else it
// returns nil.
func chooseLocal(r *reader, src *source, samples bool) (k *LocalSamples, err error) {
	c := src.local
	if c == nil {
		return nil, nil
	}
	k = &LocalSamples{samples: r}
	fits := func() bool {
		c.spare = c.tier.Stats().Limit - k.cost()
		return c.spare >= 0
	}
	if !fits() {
		k.earlier = k.countEarlier()
	}
	if fits() {
		c.tier.Renew()
		return nil, nil
	}
	if !samples {
		return nil, nil
	}
	if k.tier, err = c.tier.Instead(src.identity() + " by sample"); err != nil {
		return nil, err
	}
	c.tier, c.samples = k.tier, true
	return k, nil
}

// cost is how much of the local cache all samples in stores would take. Samples known to be
// identical count once.
func (k *LocalSamples) cost() (all int64) {
	t := k.samples.table
	counted := make([]bool, len(t.objects))
	for i := range t.rows() {
		if k.samples.storageOf(i).src.remote == nil || k.earlier != nil && k.earlier[i] > 0 {
			continue
		}
		size := max(0, t.row[i].id.Size)
		if t.isMember(i) {
			object := t.members[i].object
			if counted[object] {
				continue
			}
			counted[object], size = true, t.objects[object].id.Size
		}
		all += tier.Cost(size)
	}
	return all
}

// countEarlier counts, for each sample, the earlier ones with the same bytes; nil if all differ.
// Mistaking different samples for identical ones is improbable, and does no harm.
func (k *LocalSamples) countEarlier() (earlier []uint32) {
	t, seed := k.samples.table, maphash.MakeSeed()
	sums, order := make([]uint64, t.rows()), make([]int32, t.rows())
	for i := range sums {
		src := k.samples.storageOf(i).src
		sums[i], order[i] = maphash.String(seed, src.nameOf(src.file(t, i))), int32(i)
		if at, _ := t.place(i); at != nil {
			sums[i] ^= maphash.Comparable(seed, *at)
		}
	}
	slices.SortFunc(order, func(a, b int32) int { return cmp.Or(cmp.Compare(sums[a], sums[b]), cmp.Compare(a, b)) })
	n := uint32(0)
	for at := 1; at < len(order); at++ {
		if n++; sums[order[at]] != sums[order[at-1]] {
			n = 0
			continue
		}
		if earlier == nil {
			earlier = make([]uint32, t.rows())
		}
		earlier[order[at]] = n
	}
	return earlier
}

// LocalSamples returns the samples that the local cache keeps; nil if there is no such cache, or if
// it keeps whatever is read first.
func (d *Dataset) LocalSamples() *LocalSamples { return d.localSamples }

// KeptPacked returns the samples in another form; nil if there is no local cache, or no room beyond
// the files.
func (d *Dataset) KeptPacked(form string) *LocalSamples {
	if d.local == nil || d.local.samples || d.local.spare <= 0 {
		return nil
	}
	return &LocalSamples{samples: d.reader, tier: d.local.tier, form: form, Spare: d.local.spare}
}

// PackedCost is how many bytes of the local cache a packed sample of n bytes takes. The cache does
// not keep a sample above 8 MiB.
func PackedCost(n int64) (cost int64, ok bool) { return tier.Cost(n), n <= tier.ExtentBytes }

// ExamineLocalCache says how well a directory suits a local cache. It fails if the directory is
// unusable.
func ExamineLocalCache(dir string) (tier.Place, error) { return tier.Examine(dir) }

// Plan names the plan that chooses the samples given to Keep, and how many bytes all candidates
// would take.
func (k *LocalSamples) Plan(plan string, bytes int64) error { return k.tier.Follow(plan, bytes) }

// Room is how many bytes this plan may use now. The rest belongs to the plans of other mounts.
func (k *LocalSamples) Room() int64 { return k.tier.PlanRoom() }

// object identifies sample i in the local cache; ok is false if the cache cannot hold it.
func (k *LocalSamples) object(i int) (sample tier.Object, id Identity, ok bool) {
	src := k.samples.storageOf(i).src
	s, remote := src.remote.(*tiered)
	if !remote {
		return sample, unknown, false
	}
	f := src.objectOf(k.samples.table, i)
	sample, ok = s.object(f.object)
	if !ok || !f.whole.Known() || k.samples.closed.Load() {
		return sample, unknown, false
	}
	if at := f.place; at != nil {
		sample.Name = fmt.Sprint(sample.Name, "\n", at.Offset, at.Length, at.From, at.Size, at.Coding)
	}
	if k.earlier != nil && k.earlier[i] > 0 { // the plan counts each copy
		sample.Name += fmt.Sprint("\n+", k.earlier[i])
	}
	sample.Size = f.id.Size
	if k.form != "" {
		sample.Name += "\n" + k.form
	}
	return sample, f.id, true
}

// Load reads all of sample i from the local cache like LoadPart; ok is false if the cache lacks it.
func (k *LocalSamples) Load(ctx context.Context, i int, grow func(n int) []byte) (data []byte, id Identity, ok bool) {
	sample, id, ok := k.object(i)
	if !ok {
		return nil, id, false
	}
	n := int(sample.Size)
	if data = grow(n); cap(data) < n || !k.tier.Get(&sample, data[:n]) || k.samples.storageOf(i).limit.takeAll(ctx, n) != nil {
		return nil, unknown, false
	}
	return data[:n], id, true
}

// LoadPart reads sample i in another form, or the part that is needed, like [Dataset.LoadPart]. If
// first is 0, it reads everything. ok is false if the cache lacks the sample. The identity is the
// file's.
func (k *LocalSamples) LoadPart(ctx context.Context, i int, first int64, grow func(n int) []byte, need Part) (data []byte, read int64, id Identity, ok bool) {
	sample, id, ok := k.object(i)
	if !ok {
		return nil, 0, unknown, false
	}
	if first == 0 {
		first = tier.ExtentBytes
	}
	data, read, ok = k.tier.GetPart(&sample, first, grow, tier.Part(need))
	if !ok || k.samples.storageOf(i).limit.takeAll(ctx, int(read)) != nil {
		return nil, 0, unknown, false
	}
	return data, read, id, true
}

// Keep asks the local cache to keep data, which was read from sample i with an identity. It copies
// the data and does not wait: only a later load shows whether the sample was kept.
func (k *LocalSamples) Keep(i int, seen Identity, data []byte) {
	sample, id, ok := k.object(i)
	if !ok || id != seen || k.form == "" && int64(len(data)) != sample.Size {
		return
	}
	sample.Size = int64(len(data))
	k.tier.Put(&sample, data)
}

// Drop removes sample i from the local cache.
func (k *LocalSamples) Drop(i int) {
	if sample, _, ok := k.object(i); ok {
		if k.form != "" {
			sample.Size = 1 // of any size
		}
		k.tier.Drop(&sample)
	}
}

// Settle waits until the local cache has written, or given up, everything it was asked to keep.
func (d *Dataset) Settle() {
	if d.local != nil {
		d.local.tier.Settle()
	}
}
