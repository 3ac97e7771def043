package engine

import (
	"cmp"
	"slices"

	"github.com/batchfs/batchfs/cache"
	"github.com/batchfs/batchfs/dataset"
	"github.com/batchfs/batchfs/dataset/sample"
	"github.com/batchfs/batchfs/shard"
)

// Where a sample can wait for its next reader.
const (
	nowhere = iota
	inMemory
	onDisk
	places
)

// decodingOrder is the order in which a batch's samples are handed out. Samples that leave a cache, samples that enter
// it and all others are spread evenly, raw and encoded ones separately. If equally many enter and leave, each one that
// enters follows one that leaves. This keeps both the size of the caches and the load on storage level within the batch.
func (all *batches) decodingOrder(b *batch) []int32 {
	order := make([]int32, b.items)
	for i := range order {
		order[i] = int32(i)
	}
	if all.keeper == nil {
		return order
	}
	const moves = places * places
	kinds, counts := make([]uint8, b.items), [2 * moves]int{}
	for i, s := range b.slots[:b.items] {
		from, to, known := all.move(s)
		if !known {
			return order // the plan comes too late for this batch
		}
		kinds[i] = uint8(places*from + to)
		if sample.IsRaw(all.ds, int(s.ID)) {
			kinds[i] += moves
		}
		counts[kinds[i]]++
	}
	at, next := make([]float64, b.items), [2 * moves]int{}
	for i, kind := range kinds {
		at[i] = (float64(next[kind]) + turnOf(int(kind)%moves/places, int(kind)%places)) / float64(counts[kind])
		next[kind]++
	}
	slices.SortStableFunc(order, func(a, b int32) int { return cmp.Compare(at[a], at[b]) })
	return order
}

// move says where a sample waits for a slot, and where it will wait after that, if that is planned already.
func (all *batches) move(s shard.Slot) (from, to int, known bool) {
	p, last := all.keeper.planOf(s.Epoch)
	switch {
	case p == nil:
	case p.memory.Kept(s.ID):
		to = inMemory
	case p.disk.Kept(s.ID):
		to = onDisk
	}
	switch {
	case all.cache.Holds(s.ID):
		from = inMemory
	case all.local.has(s.ID):
		from = onDisk
	}
	return from, to, p != nil || last
}

// turnOf is when, of its share of a batch, a sample has its turn: one that leaves the memory, or else the disk, before one
// that enters it.
func turnOf(from, to int) float64 {
	switch {
	case from == to:
		return 0.5
	case from == inMemory, from == onDisk && to == nowhere:
		return 0.25
	}
	return 0.75
}

// unknownIdentity is the identity of a file that could not be opened.
var unknownIdentity = dataset.Identity{ModTime: dataset.UnknownTime}

// load returns the encoded sample, from the cache or from storage, in the worker's input
// buffer, and the identity of its file, which is unknown if the file could not be opened. A
// replacement is not part of the epoch's plan, so the cache does not record it. Of a JPEG, only what
// is decoded from entry points may be there, unless whole is true: that is for a sample of which too
// little was read before.
func (l *load) load(it item, epoch int, id int64, replacement, whole bool) ([]byte, dataset.Identity, error) {
	all, b := l.batches, it.b
	l.refused = nil
	l.entries.AllowParts(!whole && !replacement && !l.noParts)
	first, a := !replacement && !whole && !l.again, aim{}
	if first {
		a = all.local.aim(epoch, id)
	}
	if data, seen, hit := l.cached(epoch, id, replacement || l.again); hit {
		if l.again {
			return data, seen, nil
		}
		if !replacement {
			b.hits.Add(1)
		}
		all.meter.hit(b.key.Epoch)
		all.local.settle(a, epoch, id, seen, data, all.local.has(id))
		return data, seen, nil
	}
	if l.refused != nil {
		return nil, unknownIdentity, l.refused
	}
	data, seen, here := all.local.load(id, l)
	if l.refused != nil {
		return nil, seen, l.refused
	}
	read, entire, err := int64(len(data)), here && first, error(nil)
	if !here {
		data, read, seen, entire, err = l.read(epoch, id, first, a.disk)
	} else if !replacement && !l.again {
		b.local.Add(1)
	}
	if err != nil {
		return nil, seen, err
	}
	b.bytes.Add(read)
	all.meter.read(b.key.Epoch, read, whole || l.again, here)
	switch {
	case entire:
		all.cache.Put(epoch, id, cache.Stamp{Size: seen.Size, ModTime: seen.ModTime}, data)
		all.local.settle(a, epoch, id, seen, data, here)
	case first:
		all.cache.Missed(epoch, id)
	}
	return data, seen, nil
}

// read is load from storage. What a cache may keep is read entirely: first says that the sample is read as the
// epoch's plan has it, and disk that the plan wants it in the local cache.
func (l *load) read(epoch int, id int64, first, disk bool) (data []byte, read int64, seen dataset.Identity, entire bool, err error) {
	all := l.batches
	parts := l.entries != nil || sample.IsRaw(all.ds, int(id))
	entire = first && (!parts || disk || all.cache != nil && all.cache.Wants(epoch, id))
	data, read, seen, err = l.loader.Load(all.ctx, epoch, id, entire, l.growInput)
	if outOfDescriptors(err) && all.memory.giveBackIdle() {
		data, read, seen, err = l.loader.Load(all.ctx, epoch, id, entire, l.growInput)
	}
	if err != nil && entire && l.refused == nil && causeOf(err) == ofMachine && parts {
		// Reading only the crop, as without a cache, may avoid the part that failed.
		entire = false
		data, read, seen, err = l.loader.Load(all.ctx, epoch, id, entire, l.growInput)
	}
	return data, read, seen, entire, cmp.Or(l.refused, err)
}

// cached looks for the sample in the cache under the identity that its file has now. A
// sample that has changed since is not served.
func (l *load) cached(epoch int, id int64, replacement bool) ([]byte, dataset.Identity, bool) {
	all := l.batches
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
		data, hit := all.cache.Peek(id, stamp, nil, l.growInput)
		return data, now, hit
	}
	data, hit := all.cache.Get(epoch, id, stamp, nil, l.growInput)
	return data, now, hit
}
