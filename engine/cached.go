package engine

import (
	"cmp"
	"slices"

	"github.com/batchfs/batchfs/cache"
	"github.com/batchfs/batchfs/dataset"
	"github.com/batchfs/batchfs/dataset/sample"
)

// decodingOrder is the order in which a batch's samples are handed out. Samples that leave the
// cache, samples that enter it and all others are spread evenly, raw and encoded ones
// separately. If equally many enter and leave, each one that enters follows one that leaves.
// This keeps both the size of the cache and the load on storage level within the batch.
func (all *batches) decodingOrder(b *batch) []int32 {
	order := make([]int32, b.items)
	for i := range order {
		order[i] = int32(i)
	}
	if all.keeper == nil {
		return order
	}
	const leaves, others, comes, kindsOf = 0, 1, 2, 3
	kinds, counts := make([]uint8, b.items), [2 * kindsOf]int{}
	for i, s := range b.slots[:b.items] {
		kept, known := all.keeper.Keep(s.Epoch, s.ID)
		if !known {
			return order // the plan comes too late for this batch
		}
		kinds[i] = others
		if held := all.cache.Holds(s.ID); held && !kept {
			kinds[i] = leaves
		} else if kept && !held {
			kinds[i] = comes
		}
		if sample.IsRaw(all.ds, int(s.ID)) {
			kinds[i] += kindsOf
		}
		counts[kinds[i]]++
	}
	if counts[leaves]+counts[kindsOf+leaves] == 0 || counts[comes]+counts[kindsOf+comes] == 0 {
		return order
	}
	places, next := make([]float64, b.items), [2 * kindsOf]int{}
	for i, kind := range kinds {
		places[i] = (float64(next[kind]) + 0.25*float64(1+kind%kindsOf)) / float64(counts[kind])
		next[kind]++
	}
	slices.SortStableFunc(order, func(a, b int32) int { return cmp.Compare(places[a], places[b]) })
	return order
}

// unknownIdentity is the identity of a file that could not be opened.
var unknownIdentity = dataset.Identity{ModTime: dataset.UnknownTime}

// load returns the encoded sample, from the cache or from storage, in the worker's input
// buffer, and the identity of its file, which is unknown if the file could not be opened. A
// replacement is not part of the epoch's plan, so the cache does not record it. Of a JPEG, only what
// is decoded from entry points may be there, unless whole is true: that is for a sample of which too
// little was read before.
func (w *worker) load(it item, epoch int, id int64, replacement, whole bool) ([]byte, dataset.Identity, error) {
	all, b := w.batches, it.b
	w.refused = nil
	w.entries.AllowParts(!whole && !replacement && !w.noParts)
	if data, seen, hit := w.cached(epoch, id, replacement); hit {
		if !replacement {
			b.hits.Add(1)
		}
		all.meter.hit(b.key.Epoch)
		return data, seen, nil
	}
	if w.refused != nil {
		return nil, unknownIdentity, w.refused
	}
	parts := w.entries != nil || sample.IsRaw(all.ds, int(id))
	kept := all.cache != nil && !replacement && !whole && (!parts || all.cache.Wants(epoch, id))
	data, read, seen, err := w.loader.Load(epoch, id, kept, w.growInput, all.closing)
	if outOfDescriptors(err) && all.memory.giveBackIdle() {
		data, read, seen, err = w.loader.Load(epoch, id, kept, w.growInput, all.closing)
	}
	if err != nil && kept && w.refused == nil && causeOf(err) == ofMachine && parts {
		// Reading only the crop, as without a cache, may avoid the part that failed.
		kept = false
		data, read, seen, err = w.loader.Load(epoch, id, kept, w.growInput, all.closing)
	}
	if err = cmp.Or(w.refused, err); err != nil {
		return nil, seen, err
	}
	b.bytes.Add(read)
	all.meter.read(b.key.Epoch, read, whole)
	switch {
	case kept:
		all.cache.Put(epoch, id, cache.Stamp{Size: seen.Size, ModTime: seen.ModTime}, data)
	case !replacement && !whole:
		all.cache.Missed(epoch, id)
	}
	return data, seen, nil
}

// cached looks for the sample in the cache under the identity that its file has now. A
// sample that has changed since is not served.
func (w *worker) cached(epoch int, id int64, replacement bool) ([]byte, dataset.Identity, bool) {
	all := w.batches
	if !all.cache.Holds(id) {
		return nil, unknownIdentity, false
	}
	now, err := all.ds.Check(int(id))
	if err != nil {
		if dataset.OfFile(err) {
			all.cache.Drop(id)
		}
		return nil, now, false
	}
	stamp := cache.Stamp{Size: now.Size, ModTime: now.ModTime}
	if replacement {
		data, hit := all.cache.Peek(id, stamp, nil, w.growInput)
		return data, now, hit
	}
	data, hit := all.cache.Get(epoch, id, stamp, nil, w.growInput)
	return data, now, hit
}
