package engine

import (
	"cmp"
	"slices"

	"github.com/batchfs/batchfs/cache"
	"github.com/batchfs/batchfs/dataset"
	"github.com/batchfs/batchfs/shard"
	"github.com/batchfs/batchfs/shard/keep"
)

// AutoCache as a cache size means: whatever the memory limit leaves after everything else.
const AutoCache = -1

// A cacheSetup is the cache's size limit and the share of the samples read here per epoch
// that it can hold.
type cacheSetup struct {
	limit int64 // bytes, including overhead
	ratio float64
}

// planCache determines the cache's size and the share of samples that fit.
func (e *Engine) planCache() cacheSetup {
	o := &e.opts
	if o.CachePolicy == cache.None || o.CacheSize == 0 {
		return cacheSetup{}
	}
	limit := o.CacheSize
	if limit == AutoCache {
		limit = SpareMemory(e.ds, o, e.plan, e.Size(Key{}, formOf(o.Layout)))
	}
	sample := func(id int64) (int64, bool) { return e.encodedSize(int(id)), o.Shuffle && IsRaw(e.ds, int(id)) }
	read := float64(o.LocalShards()) / float64(o.Shards)
	return cacheSetup{limit: limit, ratio: cache.Ratio(limit, int64(e.ds.Len()), read, sample, o.InFlight())}
}

// InFlight is how many samples may enter the cache before the samples they replace have
// left. Consecutive batches may keep one sample more or one less than they release, and
// several batches are in the making.
func (o *Options) InFlight() int { return 2 * o.BatchWorkers * o.LocalShards() }

// decodingOrder is the order in which a batch's samples are handed out, or nil for slot
// order. Samples that leave the cache, samples that enter it and all others are spread
// evenly, raw and encoded ones separately. If equally many enter and leave, each one that
// enters follows one that leaves. This keeps both the size of the cache and the load on
// storage level within the batch.
func (e *Engine) decodingOrder(b *batch) []int32 {
	if e.keeper == nil {
		return nil
	}
	const leaves, others, comes, kindsOf = 0, 1, 2, 3
	kinds, counts := make([]uint8, b.items), [2 * kindsOf]int{}
	for i := range kinds {
		s := b.slots[i]
		kept, known := e.keeper.Keep(s.Epoch, s.ID)
		if !known {
			return nil // the plan comes too late for this batch
		}
		kinds[i] = others
		if held := e.cache.Holds(s.ID); held && !kept {
			kinds[i] = leaves
		} else if kept && !held {
			kinds[i] = comes
		}
		if IsRaw(e.ds, int(s.ID)) {
			kinds[i] += kindsOf
		}
		counts[kinds[i]]++
	}
	if counts[leaves]+counts[kindsOf+leaves] == 0 || counts[comes]+counts[kindsOf+comes] == 0 {
		return nil
	}
	order, places := make([]int32, b.items), make([]float64, b.items)
	next := [2 * kindsOf]int{}
	for i, kind := range kinds {
		order[i] = int32(i)
		places[i] = (float64(next[kind]) + 0.25*float64(1+kind%kindsOf)) / float64(counts[kind])
		next[kind]++
	}
	slices.SortStableFunc(order, func(a, b int32) int { return cmp.Compare(places[a], places[b]) })
	return order
}

// encodedSize is the size of a sample's file, or a guess if only its header is known. The
// cache's limit holds even if the guess is wrong.
func (e *Engine) encodedSize(i int) int64 {
	if id := e.ds.Stat(i); id.Known() {
		return id.Size
	}
	h, w := e.indexedSize(int64(i))
	if IsRaw(e.ds, i) {
		return int64(h) * int64(w) * 3
	}
	return int64(h) * int64(w)
}

// SpareMemory is what the memory limit leaves for a cache after the process, the index, the
// plan, the batches of one reader per shard read here (batch bytes each), and the workers'
// buffers for one sample each.
func SpareMemory(ds *dataset.Dataset, o *Options, plan *shard.Plan, batch int64) int64 {
	const worker = 4 << 20
	used := runtimeBytes + ds.MemoryBytes() + documentCacheBytes
	batches := saturating(o.PrefetchDepth+3, saturating(o.LocalShards(), batch))
	const plans = 4 // plans of four epochs at least
	planning := min(keep.Needs(plan, o.keepConfig(1))+plans*keep.Size(plan), o.MemoryLimit/2)
	return max(0, o.MemoryLimit-used-min(batches, o.MemoryLimit/2)-planning-int64(o.Workers)*worker)
}

// LocalShards is the number of shards read here.
func (o *Options) LocalShards() int {
	if o.LocalTo == 0 {
		return o.Shards
	}
	return o.LocalTo - o.LocalFrom
}

func (o *Options) keepConfig(ratio float64) keep.Config {
	return keep.Config{Ratio: ratio, LocalFrom: o.LocalFrom, LocalTo: o.LocalTo}
}

// openCache creates the cache that planCache decided on.
func (e *Engine) openCache() {
	setup := e.planCache()
	if setup.limit == 0 {
		return
	}
	options := cache.Options{
		Policy: e.opts.CachePolicy, Limit: setup.limit, Samples: int64(e.ds.Len()), Budget: cacheBudget{e},
	}
	if e.opts.CachePolicy == cache.Constant {
		if setup.ratio == 0 {
			e.log.Warn("the cache keeps nothing: it is too small for any share of samples of these sizes, whichever they are", "cache", setup.limit)
		}
		readHere := int64(e.ds.Len()) * int64(e.opts.LocalShards()) / int64(e.opts.Shards)
		e.keeper = newKeeper(e.plan, e.opts.Epochs, e.opts.keepConfig(setup.ratio), readHere, e.ledger, e.log)
		e.keeper.busy = e.meter.stalled
		options.Plan = e.keeper
	}
	var err error
	if e.cache, err = cache.New(options); err != nil {
		// Everything works without a cache, but the user should know.
		e.keeper = nil
		e.log.Warn("there is no cache", "reason", err)
	}
}

// unknownIdentity is the identity of a file that could not be opened.
var unknownIdentity = dataset.Identity{ModTime: dataset.UnknownTime}

// load returns the encoded sample, from the cache or from storage, in the worker's input
// buffer, and the identity of its file, which is unknown if the file could not be opened. A
// replacement is not part of the epoch's plan, so the cache does not record it.
func (w *worker) load(it item, epoch int, id int64, replacement bool) ([]byte, dataset.Identity, error) {
	e, b := w.engine, it.b
	w.refused = nil
	if e.cache != nil {
		if data, seen, hit := w.cached(epoch, id, replacement); hit {
			if !replacement {
				b.hits.Add(1)
			}
			e.meter.hit(b.key.Epoch)
			return data, seen, nil
		}
		if w.refused != nil {
			return nil, unknownIdentity, w.refused
		}
	}
	kept := e.cache != nil && !replacement && (!IsRaw(e.ds, int(id)) || e.cache.Wants(epoch, id))
	data, read, seen, err := w.loader.Load(epoch, id, kept, w.growInput, e.closing)
	if outOfDescriptors(err) && e.giveBackIdle() {
		data, read, seen, err = w.loader.Load(epoch, id, kept, w.growInput, e.closing)
	}
	if err != nil && kept && w.refused == nil && causeOf(err) == ofMachine && IsRaw(e.ds, int(id)) {
		// Reading only the crop, as without a cache, may avoid the part that failed.
		kept = false
		data, read, seen, err = w.loader.Load(epoch, id, kept, w.growInput, e.closing)
	}
	if w.refused != nil {
		return nil, seen, w.refused
	}
	if err != nil {
		return nil, seen, err
	}
	b.bytes.Add(read)
	e.meter.read(b.key.Epoch, read)
	switch {
	case kept:
		e.cache.Put(epoch, id, cache.Stamp{Size: seen.Size, ModTime: seen.ModTime}, data)
	case !replacement:
		e.cache.Missed(epoch, id)
	}
	return data, seen, nil
}

// cached looks for the sample in the cache under the identity that its file has now. A
// sample that has changed since is not served.
func (w *worker) cached(epoch int, id int64, replacement bool) ([]byte, dataset.Identity, bool) {
	e := w.engine
	if !e.cache.Holds(id) {
		return nil, unknownIdentity, false
	}
	now, err := e.ds.Check(int(id))
	if err != nil {
		if dataset.OfFile(err) {
			e.cache.Drop(id)
		}
		return nil, now, false
	}
	stamp := cache.Stamp{Size: now.Size, ModTime: now.ModTime}
	if replacement {
		data, hit := e.cache.Peek(id, stamp, nil, w.growInput)
		return data, now, hit
	}
	data, hit := e.cache.Get(epoch, id, stamp, nil, w.growInput)
	return data, now, hit
}

// cacheBudget lets the cache draw on the ledger. Batches that were read and are kept for a
// late reader give way to it, because the cache's plan relies on its memory. It takes
// Engine.mu under the cache's lock, so the cache must not be called with Engine.mu held.
type cacheBudget struct{ *Engine }

func (b cacheBudget) Reserve(n int64) bool {
	for !b.ledger.reserve(useCache, n) {
		if !b.dropSpent() {
			return false
		}
	}
	return true
}

func (b cacheBudget) Release(n int64) { b.ledger.release(useCache, n) }
