package profile

import (
	"math"

	"github.com/batchfs/batchfs/cache"
	"github.com/batchfs/batchfs/dataset"
	"github.com/batchfs/batchfs/dataset/sample"
	"github.com/batchfs/batchfs/engine"
	"github.com/batchfs/batchfs/layout"
	"github.com/batchfs/batchfs/shard"
)

// hitTable tells the share of reads that the mount's cache serves, for every mix of the
// whole dataset.
type hitTable struct {
	limit    int64
	samples  int64
	read     float64 // share of the dataset read here in an epoch
	inFlight int
	shuffle  bool            // without it, raw samples are not kept as evenly as others
	already  float64         // share that is raw in the dataset
	encoded  []int64         // file sizes, of all samples or of some taken evenly
	raw      []int64         // sizes of their raw copies; the same if the file is raw already
	known    map[int]float64 // at multiples of 1/hitSteps
}

const (
	hitSteps   = 50
	hitSamples = 1 << 17 // enough samples to know the sizes
)

// newHitTable collects the sizes of the dataset's files. unknown is used for files whose
// size the index lacks.
func newHitTable(ds *dataset.Dataset, o Options, unknown float64) *hitTable {
	e := &o.Engine
	shards := e.LocalShards()
	h := &hitTable{
		limit: cacheLimit(ds, e), samples: int64(ds.Len()), read: float64(shards) / float64(max(e.Shards, 1)),
		inFlight: e.InFlight(), shuffle: e.Shuffle, known: map[int]float64{},
	}
	n, already := min(ds.Len(), hitSamples), 0
	for k := range n {
		i := int(int64(k) * int64(ds.Len()) / int64(n))
		size := int64(unknown)
		if id := ds.Stat(i); id.Known() {
			size = id.Size
		}
		raw := size
		if sample.IsRaw(ds, i) {
			already++
		} else if height, width := ds.Size(i, e.Decoding.IgnoreOrientation); height > 0 {
			raw = o.Raw.FileBytes(height, width)
		}
		h.encoded, h.raw = append(h.encoded, size), append(h.raw, raw)
	}
	h.already = float64(already) / float64(n)
	return h
}

// cacheLimit is the size of the mount's cache: as configured, or about what the engine
// would choose.
func cacheLimit(ds *dataset.Dataset, e *engine.Options) int64 {
	switch {
	case e.CachePolicy == cache.None || e.CacheSize == 0:
		return 0
	case e.CacheSize != engine.AutoCache:
		return e.CacheSize
	}
	plan, err := planOf(ds, e)
	if err != nil {
		return 0
	}
	return engine.SpareMemory(ds, e, plan, batchBytes(ds, e))
}

// batchBytes is the largest size of a batch.
func batchBytes(ds *dataset.Dataset, e *engine.Options) int64 {
	h, w := e.Transform.Height, e.Transform.Width
	if h == 0 {
		report := ds.Report()
		h, w = max(report.MaxHeight, 1), max(report.MaxWidth, 1)
	}
	// A batch too big for a file is too big for any memory.
	spec, _ := layout.NewSpec(e.BatchSize, h, w, e.Decoding.Color.Channels(), e.DType, e.Layout)
	return layout.Size(layout.NHWCForm, spec)
}

// planOf returns the mount's order of the whole dataset.
func planOf(ds *dataset.Dataset, e *engine.Options) (*shard.Plan, error) {
	order := e.Config
	order.Samples = int64(ds.Len())
	return shard.New(order)
}

// at returns the share of hits, interpolated between computed mixes.
func (h *hitTable) at(raw float64) float64 {
	below, part := math.Modf(min(max(raw, 0), 1) * hitSteps)
	if part < 1e-9 {
		return h.node(int(below))
	}
	return (1-part)*h.node(int(below)) + part*h.node(int(below)+1)
}

func (h *hitTable) node(k int) float64 {
	if h.limit <= 0 {
		return 0
	}
	if _, ok := h.known[k]; !ok {
		h.known[k] = cache.Ratio(h.limit, h.samples, h.read, h.mix(float64(k)/hitSteps), h.inFlight)
	}
	return h.known[k]
}

// mix returns, for each sample of a mix, its size and whether it is raw.
func (h *hitTable) mix(raw float64) func(id int64) (int64, bool) {
	share := toConvert(raw, h.already)
	n := int64(len(h.encoded))
	return func(id int64) (int64, bool) {
		k := id % n
		if golden(k) < share {
			return h.raw[k], h.shuffle
		}
		return h.encoded[k], false
	}
}

// golden distributes any range of k evenly over 0 to 1: the fractional parts of multiples
// of the golden ratio.
func golden(k int64) float64 {
	_, part := math.Modf(float64(k) * 0.6180339887498949)
	return part
}

// toConvert is the share of encoded samples to convert so that raw of all samples are raw,
// if already of them are.
func toConvert(raw, already float64) float64 {
	if already >= 1 {
		return 0
	}
	return min(max((raw-already)/(1-already), 0), 1)
}

// limitFor returns a cache size that holds a share of ratio of a mix.
func (h *hitTable) limitFor(ratio float64, m *mix) int64 {
	if ratio <= 0 {
		return 0
	}
	sample := func(id int64) (int64, bool) { return m.sizes[id], h.shuffle && m.isRaw[id] }
	fits := func(limit int64) bool {
		return cache.Ratio(limit, int64(len(m.sizes)), 1, sample, h.inFlight) >= ratio-1e-9
	}
	low, high := int64(0), int64(1<<20)
	for !fits(high) && high < 1<<50 {
		low, high = high, 2*high
	}
	for high-low > 1024 {
		if mid := (low + high) / 2; fits(mid) {
			high = mid
		} else {
			low = mid
		}
	}
	return high
}
