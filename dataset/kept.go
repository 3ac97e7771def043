package dataset

import (
	"fmt"

	"github.com/batchfs/batchfs/tier"
)

// chooseLocal makes a local cache that not everything fits into one of samples, if it may.
func (p *opening) chooseLocal(t *table) (err error) {
	s, ok := p.src.remote.(*tiered)
	if !ok {
		return nil
	}
	all := int64(0)
	for _, o := range t.objects {
		all += tier.Cost(o.id.Size)
	}
	for i := 0; t.members == nil && i < t.rows(); i++ {
		all += tier.Cost(max(0, t.row[i].id.Size))
	}
	if all <= s.tier.Stats().Limit {
		s.tier.Renew()
		return nil
	}
	if !p.Storage.LocalCache.Samples {
		return nil
	}
	s.samples = true
	kept, err := s.tier.Instead(p.src.identity() + " by sample")
	if err == nil {
		s.tier = kept
	}
	return err
}

// KeepsSamples says whether there is a local cache that keeps what Keep is given.
func (d *Dataset) KeepsSamples() bool {
	s, ok := d.remote.(*tiered)
	return ok && s.samples
}

// kept is sample i in the local cache; nil: it cannot be there.
func (d *Dataset) kept(i int) (t *tier.Tier, sample tier.Object, id Identity) {
	if !d.KeepsSamples() {
		return nil, sample, unknown
	}
	f, s := d.storage.objectOf(d.table, i), d.remote.(*tiered)
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
func (d *Dataset) LoadKept(i int, grow func(n int) []byte, stop <-chan struct{}) (data []byte, id Identity, ok bool) {
	t, sample, id := d.kept(i)
	if t == nil {
		return nil, id, false
	}
	n := int(sample.Size)
	if data = grow(n); cap(data) < n || !t.Get(&sample, data[:n]) || d.storage.limit.takeAll(n, stop) != nil {
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
	if s, ok := d.remote.(*tiered); ok {
		s.tier.Settle()
	}
}
