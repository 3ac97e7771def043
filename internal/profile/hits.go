package profile

import (
	"math"
	"sort"

	"github.com/batchfs/batchfs/cache"
	"github.com/batchfs/batchfs/engine"
	"github.com/batchfs/batchfs/internal/convert"
	"github.com/batchfs/batchfs/internal/sample"
	"github.com/batchfs/batchfs/shard"
)

// hitTable tells the share of reads that the mount's cache serves, for every mix of the
// whole dataset.
type hitTable struct {
	limit   int64   // of the cache
	already float64 // share that is raw in the dataset
	left    bool    // the cache is left out of account, see Options.Samples
	ratios  [hitSteps + 1]float64
}

const (
	hitSteps   = 50
	hitSamples = 1 << 17 // enough samples to know the sizes
)

// newHitTable makes the table from the sizes of the dataset's files, or of some taken evenly.
// unknown is used for files whose size the index lacks. samples is as in Options: to a cache, many
// samples are like larger ones.
func newHitTable(c engine.Budget, raw convert.Options, unknown float64, samples int) *hitTable {
	scale := max(1, float64(samples)/float64(c.Dataset.Len()))
	ds, already, n := c.Dataset, 0, int64(min(c.Dataset.Len(), hitSamples))
	type file struct {
		size, raw int64 // as it is, and raw: the same if it is raw already
		cost      shard.Cost
	}
	files := make([]file, n)
	for k := range files {
		i := int(int64(k) * int64(ds.Len()) / n)
		size := int64(unknown)
		if id := ds.Stat(i); id.Known() {
			size = id.Size
		}
		files[k] = file{size, size, sample.CostOf(ds, i)}
		if files[k].cost == shard.Raw {
			already++
		} else if height, width := ds.Size(i, raw.IgnoreOrientation); height > 0 {
			files[k].raw = raw.FileBytes(height, width)
		}
	}
	h := &hitTable{already: float64(already) / float64(n)}
	for step := range h.ratios {
		share := toConvert(float64(step)/hitSteps, h.already)
		h.limit, h.ratios[step] = c.CacheSize(func(id int64) (int64, shard.Cost) {
			f := &files[id%n]
			if among(id%n, share) {
				return int64(scale * float64(f.raw)), shard.Raw
			}
			return int64(scale * float64(f.size)), f.cost
		})
	}
	if h.left = samples == 0 && h.ratios[hitSteps] >= 1; h.left {
		clear(h.ratios[:])
	}
	return h
}

// at returns the share of hits, interpolated between the steps.
func (h *hitTable) at(raw float64) float64 {
	below, part := math.Modf(min(max(raw, 0), 1) * hitSteps)
	return (1-part)*h.ratios[int(below)] + part*h.ratios[min(int(below)+1, hitSteps)]
}

// limitFor returns a cache size that holds a share of ratio of a mix.
func limitFor(ratio float64, m *mix, e *engine.Options) int64 {
	if ratio <= 0 {
		return 0
	}
	file := func(id int64) (int64, int) { return m.sizes[id], e.Kind(sample.CostOf(m.Dataset, int(id))) }
	return 1024 * int64(sort.Search(1<<40, func(kib int) bool {
		return cache.Ratio(1024*int64(kib), int64(len(m.sizes)), 1, file, e.InFlight()) >= ratio-1e-9
	}))
}

// among says whether k is among a share of all numbers. Any range has its share of them, to
// within one.
func among(k int64, share float64) bool {
	return math.Floor(float64(k+1)*share+0.5) > math.Floor(float64(k)*share+0.5)
}

// toConvert is the share of encoded samples to convert so that raw of all samples are raw,
// if already of them are.
func toConvert(raw, already float64) float64 {
	if already >= 1 {
		return 0
	}
	return min(max((raw-already)/(1-already), 0), 1)
}
