package engine

import (
	"cmp"
	"math"

	"github.com/batchfs/batchfs/cache"
	"github.com/batchfs/batchfs/internal/catalog"
	"github.com/batchfs/batchfs/internal/dataset"
	"github.com/batchfs/batchfs/internal/keep"
	"github.com/batchfs/batchfs/internal/sample"
	"github.com/batchfs/batchfs/layout"
	"github.com/batchfs/batchfs/shard"
)

// AutoCache as a cache size means: whatever the memory limit leaves after everything else.
const AutoCache = -1

// A Budget divides the memory limit before anything is read, based on the dataset's index and the
// options.
type Budget struct {
	*catalog.Catalog
	Options *Options // with defaults filled in
}

// NewBudget checks the options, and determines what exists under them.
func NewBudget(ds *dataset.Dataset, o Options) (Budget, error) {
	if err := o.validate(); err != nil {
		return Budget{}, err
	}
	c, err := catalog.New(ds, o.Options)
	if err != nil {
		return Budget{}, err
	}
	o = o.withDefaults()
	o.Options = c.Options
	b := Budget{c, &o}
	if o.CacheForm == FormPacked {
		if err := b.mayPack(); err != nil && b.packedOnDisk() == nil {
			return Budget{}, err
		}
	}
	return b, nil
}

func (c Budget) cacheSize() (limit int64, ratio float64) {
	return c.CacheSize(func(id int64) (int64, shard.Cost) { return c.encodedSize(int(id)), sample.CostOf(c.Dataset, int(id)) })
}

// CacheSize is the cache's limit in bytes, including overhead, and the share of the samples
// read here per epoch that it can hold. file returns the size of a sample's file and its
// cost.
func (c Budget) CacheSize(file func(id int64) (size int64, cost shard.Cost)) (limit int64, ratio float64) {
	o := c.Options
	if limit = c.CacheLimit(); limit == 0 {
		return 0, 0
	}
	sizes := func(id int64) (int64, int) {
		size, cost := file(id)
		return size, o.Kind(cost)
	}
	return limit, cache.Ratio(limit, o.Samples, o.readHere(), sizes, o.InFlight())
}

// Kind returns the kind, for package cache, of samples of a cost. Without a shuffle, plans do not
// tell costs apart, so all samples are of one kind.
func (o *Options) Kind(cost shard.Cost) int {
	if !o.Shuffle {
		return 0
	}
	return int(cost)
}

// CacheLimit is the cache's limit in bytes, including overhead; 0: there is no cache.
func (c Budget) CacheLimit() int64 {
	o := c.Options
	switch {
	case o.CachePolicy == cache.None:
		return 0
	case o.CacheSize == AutoCache:
		spare := c.spareMemory()
		return min(spare-min(c.pageNeeds(), spare), cache.MaxLimit)
	}
	return min(o.CacheSize, cache.MaxLimit)
}

// InFlight is how many samples may enter the cache before the samples they replace have left it.
//
// Each thread may be interrupted while a sample leaves. And each of several batches in the making
// may keep one sample more than it releases. Batches that follow one another even out: shards that
// are read in lock step keep at most 3 more in all, of which mostUneven is the double. But some
// shards may be ahead of others, by as many batches as are made ahead, or by an epoch. These keep
// as many more as chance has it, which is rarely beyond so many spreads, or standard deviations.
func (o *Options) InFlight() int {
	const mostUneven, spreads, variance = 6, 4, 0.5
	uneven := mostUneven
	if n := o.LocalShards(); n > 1 {
		ahead := min(int64(o.PrefetchDepth)+1, o.Samples/int64(o.Shards)/int64(o.BatchSize)+1)
		batches := float64(saturating(ahead, n))
		uneven = max(uneven, int(math.Ceil(spreads*math.Sqrt(variance*batches))))
	}
	return min(uneven, max(o.BatchWorkers*o.LocalShards(), o.drawers())) + o.drawers()
}

// encodedSize is the size of a sample's file, or a guess if only its header is known. The
// cache's limit holds even if the guess is wrong.
func (c Budget) encodedSize(i int) int64 {
	if id := c.Dataset.Stat(i); id.Known() {
		return id.Size
	}
	h, w := c.SizeOf(int64(i))
	size := int64(h) * int64(w)
	if sample.CostOf(c.Dataset, i) == shard.Raw {
		size *= 3
	}
	return size
}

// largest is what the largest sample of a batch may take while it is made, if that exceeds the room
// that is always there; otherwise 0. With nvJPEG, samples take memory like that of batches, from
// which such room would be kept.
func (c Budget) largest(slots []shard.Slot, part catalog.Part) int64 {
	if c.Options.NVJPEG != "" {
		return 0
	}
	const perPixel = 16                        // more than any codec and the resizer take
	input, pixels := c.Pages.Largest, int64(0) // a page, or otherwise a sample as stored, and unpacked
	for _, s := range slots {
		h, w := c.SizeOf(s.ID)
		if c.readsImages(part) {
			input = max(input, 2*c.encodedSize(int(s.ID)))
		}
		input, pixels = max(input, 2*c.maskSize(s.ID, part)), max(pixels, perPixel*int64(h)*int64(w))
		for i, a := range c.Catalog.Options.Arrays {
			if part.HasArray(i) && a.Rows[s.ID] >= 0 {
				input = max(input, 2*a.Dataset.Stat(int(a.Rows[s.ID])).Size)
			}
		}
	}
	if load, drawing := roomApart(c.Options.MemoryLimit); input <= load && pixels <= drawing {
		return 0
	}
	return input + pixels
}

// indexMemory is what the index takes, with the plan, the annotations and requests to stores.
func (c Budget) indexMemory() int64 {
	return c.Dataset.MemoryBytes() + c.Dataset.RequestBytes() + c.Plan.MemoryBytes() + c.Catalog.Options.MemoryBytes()
}

// spareMemory is what the memory limit leaves for a cache after the process, the index, the
// plan, the batches of one reader per shard read here, and the workers' buffers.
func (c Budget) spareMemory() int64 {
	const processor, worker = 4 << 20, 256 << 10
	o := c.Options
	used := runtimeBytes + c.indexMemory()
	batches := saturating(o.PrefetchDepth+3, saturating(o.LocalShards(), c.TensorSize()))
	if o.Masks != nil {
		batches += saturating(o.PrefetchDepth+3, saturating(o.LocalShards(), c.Size(Key{}, layout.MasksNPY)))
	}
	for i := range o.Arrays {
		batches += saturating(o.PrefetchDepth+3, saturating(o.LocalShards(), c.Size(Key{}, layout.ArrayForm(i))))
	}
	const plans = 4 // plans for four epochs at least
	kept := shares{memory: 1}
	if c.Dataset.LocalSamples() != nil {
		kept.disk = 1
		used += o.Samples // see localCache.waits
	}
	planning := min(kept.needs(c)+plans*kept.bytes(c), o.MemoryLimit/2)
	load, drawing := roomApart(o.MemoryLimit)
	making := max(load+drawing, int64(o.drawers())*processor+int64(cmp.Or(o.Loads, 4*o.drawers()))*worker)
	return max(0, o.MemoryLimit-used-min(batches, o.MemoryLimit/2)-planning-making)
}

// LocalShards is the number of shards read here.
func (o *Options) LocalShards() int {
	if o.LocalTo == 0 {
		return o.Shards
	}
	return o.LocalTo - o.LocalFrom
}

// readHere is the share of the samples that an epoch reads here.
func (o *Options) readHere() float64 { return float64(o.LocalShards()) / float64(o.Shards) }

func (o *Options) keepConfig(ratio float64) keep.Config {
	return keep.Config{Ratio: ratio, LocalFrom: o.LocalFrom, LocalTo: o.LocalTo}
}

// openCache creates the cache that the options ask for, and the planner that plans for it and for
// the local cache; nil: there is none.
func openCache(c Budget, m *memory, busy func() bool) (*cache.Cache, *planner) {
	o := c.Options
	limit, ratio := c.cacheSize()
	s, planned := shares{}, limit > 0 && o.CachePolicy == cache.Constant
	if planned {
		s.memory, s.forms = ratio, newForms(c, limit)
		if ratio == 0 {
			o.Logger.Warn("the cache keeps nothing: it is too small for samples of these sizes", "cache", limit)
		}
	}
	s.addLocal(c)
	var k *planner
	if planned || s.local() {
		k = newPlanner(c, s, m.ledger, busy)
	}
	if limit == 0 {
		return nil, k
	}
	options := cache.Options{Policy: o.CachePolicy, Limit: limit, Samples: o.Samples, Budget: cacheBudget{m, useCache}}
	if planned {
		options.Plan = k
	}
	opened, err := cache.New(options)
	if err != nil {
		// Everything works without a cache, but the user should know.
		o.Logger.Warn("there is no cache", "reason", err)
		if s.memory, s.forms = 0, nil; !s.local() {
			return nil, nil
		}
		return nil, newPlanner(c, s, m.ledger, busy)
	}
	return opened, k
}

// saturating is a*b, for factors of 0 or more, capped so that adding to it does not overflow.
func saturating[A, B int | int64](a A, b B) int64 {
	const most = math.MaxInt64 / 2
	if a > 0 && int64(b) > most/int64(a) {
		return most
	}
	return int64(a) * int64(b)
}
