package dataset

import (
	"context"
	"fmt"

	"github.com/batchfs/batchfs/tier"
)

// chooseLocal makes a local cache that not everything fits into one of samples, if it may.
func (p *opening) chooseLocal(t *table) (err error) {
	c := p.src.local
	if c == nil {
		return nil
	}
	all := int64(0)
	for _, o := range t.objects {
		all += tier.Cost(o.id.Size)
	}
	for i := range t.rows() {
		if !t.isMember(i) {
			all += tier.Cost(max(0, t.row[i].id.Size))
		}
	}
	if all <= c.tier.Stats().Limit {
		c.tier.Renew()
		return nil
	}
	if !p.Storage.LocalCache.Samples {
		return nil
	}
	kept, err := c.tier.Instead(p.src.identity() + " by sample")
	if err == nil {
		c.tier, c.samples = kept, true
	}
	return err
}

// KeepsSamples says whether there is a local cache that keeps what Keep is given.
func (d *Dataset) KeepsSamples() bool { return d.local != nil && d.local.samples }

// PlanKept says by which plan samples are given to Keep, and how many bytes all that it chooses from would take.
func (d *Dataset) PlanKept(plan string, bytes int64) error { return d.local.tier.Follow(plan, bytes) }

// RoomForKept is how many bytes there are for the plan now. The rest is for those that other mounts follow.
func (d *Dataset) RoomForKept() int64 { return d.local.tier.PlanRoom() }

// kept is sample i in the local cache; nil: it cannot be there.
func (d *Dataset) kept(i int) (t *tier.Tier, sample tier.Object, id Identity) {
	p := d.origin(i)
	s, remote := p.remote.(*tiered)
	if !d.KeepsSamples() || !remote {
		return nil, sample, unknown
	}
	f := p.objectOf(d.table, i)
	sample, ok := s.object(f.object)
	if !ok || !f.whole.Known() || d.closed.Load() {
		return nil, sample, unknown
	}
	if at := f.place; at != nil {
		sample.Name = fmt.Sprint(sample.Name, "\n", at.Offset, at.Length, at.From, at.Size, at.Coding)
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
	if data = grow(n); cap(data) < n || !t.Get(&sample, data[:n]) || d.storage.limit.takeAll(ctx, n) != nil {
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
