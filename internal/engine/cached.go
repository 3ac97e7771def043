package engine

import (
	"cmp"
	"slices"

	"github.com/batchfs/batchfs/cache"
	"github.com/batchfs/batchfs/decode"
	"github.com/batchfs/batchfs/internal/dataset"
	"github.com/batchfs/batchfs/internal/entries"
	"github.com/batchfs/batchfs/internal/fault"
	"github.com/batchfs/batchfs/internal/pages"
	"github.com/batchfs/batchfs/internal/sample"
	"github.com/batchfs/batchfs/shard"
)

// Where a sample can wait until it is read again.
const (
	nowhere = iota
	inMemory
	onDisk
	places
)

// caches holds what is kept of samples between their reads, and knows where it is.
type caches struct {
	ds      *dataset.Dataset
	pages   *pages.Cache   // nil: there are no compressed pages
	entries *entries.Store // where decoding of JPEGs can start; nil: unknown
	cache   *cache.Cache   // nil: no cache
	local   *localCache    // single samples on a local disk; nil: none are planned there
	planner *planner       // the plan for cache and local; nil: none
	forms   *forms         // in which form samples are in memory; nil: as stored
	disk    *diskForms     // which samples the disk keeps packed, too; nil: none
	rates   *rates
}

// openCaches opens what the options ask for. busy reports whether an Open waits for a batch, and
// readsFree whether reads take no time.
func openCaches(c Budget, m *memory, busy, readsFree func() bool) *caches {
	k := &caches{ds: c.Dataset, pages: openPages(c, m), entries: openEntries(c), rates: &rates{}}
	m.pages = k.pages
	k.cache, k.planner = openCache(c, m, busy)
	if k.planner != nil {
		k.forms = k.planner.shares.forms
	}
	if k.forms != nil {
		k.forms.cache, k.forms.rates, k.forms.readsFree = k.cache, k.rates, readsFree
		k.forms.ledger, k.forms.planning = m.ledger, k.planner.bytes+k.planner.needs
	}
	m.cache, m.planner = k.cache, k.planner
	k.local = openLocalCache(c, k.planner, m)
	k.disk = openDiskForms(c, m)
	return k
}

// close writes what outlives the mount, and gives all memory back.
func (k *caches) close() {
	k.cache.Close()
	k.ds.DropPages(k.pages)
	k.pages.Close()
	_ = k.entries.Close() // failures were logged
}

// openEntries opens the entry points that are kept beside the index; nil: there are none.
func openEntries(c Budget) *entries.Store {
	o := c.Options
	if o.Entries == decode.EntryOff || o.NVJPEG != "" {
		return nil
	}
	store, err := c.Dataset.OpenEntries(entries.Options{Rule: int32(o.Entries), Strict: o.StrictEntries, Logger: o.Logger})
	if err != nil {
		o.Logger.Debug("JPEGs are decoded without stored entry points", "reason", err)
	}
	return store
}

// decodingOrder is the order in which a batch's samples are handed out. Samples that leave a cache,
// samples that enter it and all others are spread evenly, those of each cost separately. If equally
// many enter and leave, each one that enters follows one that leaves. This keeps both the size of
// the caches and the load on storage level within the batch.
func (k *caches) decodingOrder(b *batch) []int32 {
	order := make([]int32, b.items)
	for i := range order {
		order[i] = int32(i)
	}
	if k.planner == nil || !b.key.Part.HasImages() {
		return order
	}
	const moves = places * places
	kinds, counts := make([]uint8, b.items), [shard.NumCosts * moves]int{}
	for i, s := range b.slots[:b.items] {
		from, to, known := k.move(s)
		if !known {
			return order // the plan comes too late for this batch
		}
		kinds[i] = uint8(moves*int(sample.CostOf(k.ds, int(s.ID))) + places*from + to)
		counts[kinds[i]]++
	}
	at, next := make([]float64, b.items), [shard.NumCosts * moves]int{}
	for i, kind := range kinds {
		at[i] = (float64(next[kind]) + turnOf(int(kind)%moves/places, int(kind)%places)) / float64(counts[kind])
		next[kind]++
	}
	slices.SortStableFunc(order, func(a, b int32) int { return cmp.Compare(at[a], at[b]) })
	return order
}

// move says where a sample waits before a slot shows it, and where it will wait afterwards, if that
// is planned already.
func (k *caches) move(s shard.Slot) (from, to int, known bool) {
	p, last := k.planner.planOf(s.Epoch)
	switch {
	case p == nil:
	case p.memory.Kept(s.ID):
		to = inMemory
	case p.disk.Kept(s.ID):
		to = onDisk
	}
	switch {
	case k.cache.Holds(s.ID):
		from = inMemory
	case k.local.has(s.ID):
		from = onDisk
	}
	return from, to, p != nil || last
}

// turnOf says when in its share of a batch a sample is read: one that leaves the memory (or else
// the disk) before one that enters it.
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

// readSample reads the encoded sample, from the cache or from storage, into the worker's input
// buffer. It also returns the identity of the file, which is unknown if the file could not be
// opened. A replacement is not part of the epoch's plan, so the cache does not record it. Only
// those bytes of a JPEG that are decoded from entry points may be there, unless whole is true: that
// is for a sample of which too little was read before.
func (l *load) readSample(replacement, whole bool) ([]byte, dataset.Identity, error) {
	all, b, id, epoch, again := l.batches, l.item.batch, l.item.id, l.item.source().Epoch, l.item.again
	l.input.refused = nil
	l.entries.AllowParts(!whole && !replacement && l.item.gpu == nil)
	first, a := !replacement && !whole && !again, diskPlan{}
	if first {
		a = all.caches.local.planned(epoch, id)
	}
	if data, seen, hit := l.readCache(epoch, id, replacement || again); hit {
		if first && !l.sample.packed {
			l.sample.mix, l.sample.packs = all.caches.shouldPack(epoch, id, data)
		}
		if again {
			return data, seen, nil
		}
		if !replacement {
			b.hits.Add(1)
		}
		all.meter.hit(b.key.Epoch)
		there := all.caches.local.has(id)
		a.disk = a.disk && (there || !l.sample.packed) // a packed sample is not a file
		all.caches.local.follow(a, epoch, id, seen, data, there)
		return data, seen, nil
	}
	if l.input.refused != nil {
		return nil, unknownIdentity, l.input.refused
	}
	if !whole && (replacement || all.caches.cache == nil || !all.caches.cache.Wants(epoch, id)) {
		if data, read, seen, ok := all.caches.disk.load(epoch, id, l); ok {
			l.sample.packed = true
			b.bytes.Add(read)
			all.meter.read(b.key.Epoch, read, again, false)
			all.caches.rates.wasRead()
			if first {
				all.caches.cache.Missed(epoch, id)
			}
			return data, seen, nil
		}
		if l.input.refused != nil {
			return nil, unknownIdentity, l.input.refused
		}
	}
	data, seen, here := all.caches.local.load(id, l)
	if l.input.refused != nil {
		return nil, seen, l.input.refused
	}
	read, entire, err := int64(len(data)), here && first, error(nil)
	if !here {
		data, read, seen, entire, err = l.read(epoch, id, first, a.disk)
	} else if !replacement && !again {
		b.local.Add(1)
	}
	if err != nil {
		return nil, seen, err
	}
	b.bytes.Add(read)
	all.meter.read(b.key.Epoch, read, whole || again, here)
	all.caches.rates.wasRead()
	switch {
	case entire:
		l.sample.toDisk = all.caches.disk.wants(id)
		l.sample.late = all.caches.cache.Put(epoch, id, stampOf(seen), data)
		l.sample.mix, l.sample.packs = all.caches.shouldPack(epoch, id, data)
		all.caches.local.follow(a, epoch, id, seen, data, here)
	case first:
		all.caches.cache.Missed(epoch, id)
	}
	return data, seen, nil
}

// read is load from storage. It reads a sample entirely if a cache may keep it. first says that the
// sample is read as the epoch's plan has it, and disk that the plan wants it in the local cache.
func (l *load) read(epoch int, id int64, first, disk bool) (data []byte, read int64, seen dataset.Identity, entire bool, err error) {
	all := l.batches
	parts := l.entries != nil || sample.CostOf(all.catalog.Dataset, int(id)) != shard.Encoded
	entire = first && (!parts || disk || all.caches.disk.wants(id) || all.caches.cache != nil && all.caches.cache.Wants(epoch, id))
	given := all.memory.idle.given.Load()
	data, read, seen, err = l.loader.Load(all.ctx, epoch, id, entire, l.input.grow)
	if outOfDescriptors(err) && all.memory.giveBackIdle(given) {
		data, read, seen, err = l.loader.Load(all.ctx, epoch, id, entire, l.input.grow)
	}
	if err != nil && entire && l.input.refused == nil && fault.Of(err) == fault.Machine && parts {
		// Reading only the crop, as without a cache, may avoid the part that failed.
		entire = false
		data, read, seen, err = l.loader.Load(all.ctx, epoch, id, entire, l.input.grow)
	}
	return data, read, seen, entire, cmp.Or(l.input.refused, err)
}

// readCache looks for the sample in the cache under the identity that its file has now. A
// sample that has changed since is not served.
func (l *load) readCache(epoch int, id int64, replacement bool) ([]byte, dataset.Identity, bool) {
	all := l.batches
	if !all.caches.cache.Holds(id) {
		return nil, unknownIdentity, false
	}
	now, err := all.catalog.Dataset.Check(int(id))
	if err != nil {
		if fault.Of(err) == fault.File {
			all.caches.cache.Drop(id)
		}
		return nil, now, false
	}
	get := func() (data []byte, packed, hit bool) {
		return all.caches.cache.Get(epoch, id, stampOf(now), nil, l.input.grow)
	}
	if replacement {
		get = func() (data []byte, packed, hit bool) {
			return all.caches.cache.Peek(id, stampOf(now), nil, l.input.grow)
		}
	}
	data, packed, hit := get()
	l.sample.packed = packed && hit
	return data, now, hit
}

func stampOf(file dataset.Identity) cache.Stamp {
	return cache.Stamp{Size: file.Size, ModTime: file.ModTime}
}

// shouldPack says whether a sample that was read in an epoch is to be packed where it is kept: if
// that is planned, and if there is room for packed samples to grow. It also returns the mix to
// which the packed sample belongs. file is what was read.
func (k *caches) shouldPack(epoch int, id int64, file []byte) (mix, bool) {
	in, planned := k.planner.ShouldPack(epoch, id)
	format := decode.Sniff(file)
	if !planned || format.Raw() || format == decode.Packed || !k.cache.Holds(id) {
		return in, false
	}
	return in, k.cache.Grown()+int64((k.rates.larger()-1)*float64(len(file))) <= k.forms.mayGrow(in)
}
