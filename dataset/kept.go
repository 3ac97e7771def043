package dataset

import (
	"cmp"
	"context"
	"fmt"
	"hash/maphash"
	"slices"

	"github.com/batchfs/batchfs/internal/tier"
)

// chooseLocal makes a local cache that not everything fits into one of samples, if it may.
func (d *Dataset) chooseLocal(samples bool) (err error) {
	c := d.local
	if c == nil {
		return nil
	}
	fits := func() bool { return costOfStores(d) <= c.tier.Stats().Limit }
	if !fits() {
		d.earlier = d.countEarlier()
	}
	if fits() {
		c.tier.Renew()
		return nil
	}
	if !samples {
		return nil
	}
	kept, err := c.tier.Instead(d.identity() + " by sample")
	if err == nil {
		c.tier, c.samples = kept, true
	}
	return err
}

// costOfStores is what all that is in stores takes of the local cache. What is known to be there twice is counted once.
func costOfStores(d *Dataset) (all int64) {
	counted := make([]bool, len(d.table.objects))
	for i := range d.Len() {
		if !d.InStore(i) || d.earlier != nil && d.earlier[i] > 0 {
			continue
		}
		size := max(0, d.table.row[i].id.Size)
		if d.table.isMember(i) {
			k := d.table.members[i].object
			if counted[k] {
				continue
			}
			counted[k], size = true, d.table.objects[k].id.Size
		}
		all += tier.Cost(size)
	}
	return all
}

// countEarlier counts, for each sample, those before it that have the same bytes; nil: no bytes are there twice. (If others are
// taken for the same, which is improbable, that does no harm.)
func (d *Dataset) countEarlier() (earlier []uint32) {
	sums, order, seed := make([]uint64, d.Len()), make([]int32, d.Len()), maphash.MakeSeed()
	for i := range sums {
		src := d.storageOf(i).src
		sums[i], order[i] = maphash.String(seed, src.nameOf(src.file(d.table, i))), int32(i)
		if at, _ := d.table.place(i); at != nil {
			sums[i] ^= maphash.Comparable(seed, *at)
		}
	}
	slices.SortFunc(order, func(a, b int32) int { return cmp.Or(cmp.Compare(sums[a], sums[b]), cmp.Compare(a, b)) })
	n := uint32(0)
	for k := 1; k < len(order); k++ {
		if n++; sums[order[k]] != sums[order[k-1]] {
			n = 0
			continue
		}
		if earlier == nil {
			earlier = make([]uint32, d.Len())
		}
		earlier[order[k]] = n
	}
	return earlier
}

// KeepsSamples says whether there is a local cache that keeps what Keep is given.
func (d *Dataset) KeepsSamples() bool { return d.local != nil && d.local.samples }

// ExamineLocalCache says what a directory is good for as a local cache. The error says why it is
// good for nothing.
func ExamineLocalCache(dir string) (tier.Place, error) { return tier.Examine(dir) }

// PlanKept says by which plan samples are given to Keep, and how many bytes all that it chooses from would take.
func (d *Dataset) PlanKept(plan string, bytes int64) error { return d.local.tier.Follow(plan, bytes) }

// RoomForKept is how many bytes there are for the plan now. The rest is for those that other mounts follow.
func (d *Dataset) RoomForKept() int64 { return d.local.tier.PlanRoom() }

// kept is sample i in the local cache; nil: it cannot be there.
func (d *Dataset) kept(i int) (t *tier.Tier, sample tier.Object, id Identity) {
	src := d.storageOf(i).src
	s, remote := src.remote.(*tiered)
	if !d.KeepsSamples() || !remote {
		return nil, sample, unknown
	}
	f := src.objectOf(d.table, i)
	sample, ok := s.object(f.object)
	if !ok || !f.whole.Known() || d.closed.Load() {
		return nil, sample, unknown
	}
	if at := f.place; at != nil {
		sample.Name = fmt.Sprint(sample.Name, "\n", at.Offset, at.Length, at.From, at.Size, at.Coding)
	}
	if d.earlier != nil && d.earlier[i] > 0 { // the plan has each on its own
		sample.Name += fmt.Sprint("\n+", d.earlier[i])
	}
	sample.Size = f.id.Size
	return s.tier, sample, f.id
}

// LoadKept is LoadPart of a whole sample from the local cache; false: that does not have it.
func (d *Dataset) LoadKept(ctx context.Context, i int, grow func(n int) []byte) (data []byte, id Identity, ok bool) {
	t, sample, id := d.kept(i)
	if t == nil {
		return nil, id, false
	}
	n := int(sample.Size)
	if data = grow(n); cap(data) < n || !t.Get(&sample, data[:n]) || d.storageOf(i).limit.takeAll(ctx, n) != nil {
		return nil, unknown, false
	}
	return data[:n], id, true
}

// Keep has the local cache keep sample i, of which data was read with an identity. It copies the data, and waits for
// nothing: whether the sample is kept shows only when it is loaded again.
func (d *Dataset) Keep(i int, seen Identity, data []byte) {
	if t, sample, id := d.kept(i); t != nil && id == seen && int64(len(data)) == sample.Size {
		t.Put(&sample, data)
	}
}

// Drop removes sample i from the local cache.
func (d *Dataset) Drop(i int) {
	if t, sample, _ := d.kept(i); t != nil {
		t.Drop(&sample)
	}
}

// Settle waits until everything that the local cache was to keep is there, or was given up.
func (d *Dataset) Settle() {
	if d.local != nil {
		d.local.tier.Settle()
	}
}
