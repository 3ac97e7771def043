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
	limit   int64          // of the cache
	already convert.Shares // in the dataset
	left    bool           // the cache is left out of account, see Options.Samples
	budget  engine.Budget
	scale   float64
	files   []sizes
	ratios  map[[2]int]float64 // by steps of raw and packed images, as far as they are known
}

// sizes are those of a file, as it is and in other forms: the same if it cannot get one.
type sizes struct {
	is    shard.Cost
	bytes [shard.NumCosts]float64
}

const (
	hitSteps   = 50
	hitSamples = 1 << 17 // enough samples to know the sizes
)

// newHitTable makes the table from the sizes of the dataset's files, or of some taken evenly.
// unknown is used for files whose size the index lacks, and a packed file is taken for growth times
// the size. samples is as in Options: to a cache, many samples are like larger ones.
func newHitTable(c engine.Budget, raw convert.Options, unknown, growth float64, samples int, forms path) *hitTable {
	h := &hitTable{budget: c, scale: max(1, float64(samples)/float64(c.Dataset.Len())), ratios: map[[2]int]float64{}}
	ds, n := c.Dataset, int64(min(c.Dataset.Len(), hitSamples))
	var already [shard.NumCosts]int
	h.files = make([]sizes, n)
	for k := range h.files {
		i := int(int64(k) * int64(ds.Len()) / n)
		size := unknown
		if id := ds.Stat(i); id.Known() {
			size = float64(id.Size)
		}
		f := sizes{sample.CostOf(ds, i), [shard.NumCosts]float64{size, size, size}}
		already[f.is]++
		if f.is == shard.Encoded {
			f.bytes[shard.Packed] *= growth
			if height, width := ds.Size(i, raw.IgnoreOrientation); height > 0 {
				f.bytes[shard.Raw] = float64(raw.FileBytes(height, width))
			}
		}
		h.files[k] = f
	}
	h.already = convert.Shares{Raw: float64(already[shard.Raw]) / float64(n), Packed: float64(already[shard.Packed]) / float64(n)}
	h.limit = c.CacheLimit()
	h.left = samples == 0 && h.at(forms.mix(float64(len(forms)-1))) >= 1
	return h
}

// at returns the share of hits, interpolated between the steps.
func (h *hitTable) at(s convert.Shares) (ratio float64) {
	if h.limit == 0 || h.left {
		return 0
	}
	raw, partRaw := math.Modf(min(max(s.Raw, 0), 1) * hitSteps)
	packed, partPacked := math.Modf(min(max(s.Packed, 0), 1) * hitSteps)
	for i, r := range []float64{1 - partRaw, partRaw} {
		for k, p := range []float64{1 - partPacked, partPacked} {
			if r*p > 0 {
				ratio += r * p * h.step(int(raw)+i, int(packed)+k)
			}
		}
	}
	return ratio
}

// step is the share of hits for so many steps of raw and of packed images.
func (h *hitTable) step(raw, packed int) float64 {
	packed = min(packed, hitSteps-raw)
	ratio, known := h.ratios[[2]int{raw, packed}]
	if !known {
		open := max(1-h.already.Raw-h.already.Packed, 1e-9) // share that can get another form
		raws := min(max(float64(raw)/hitSteps-h.already.Raw, 0)/open, 1)
		packs := min(max(float64(packed)/hitSteps-h.already.Packed, 0)/open, 1-raws)
		n := int64(len(h.files))
		_, ratio = h.budget.CacheSize(func(id int64) (int64, shard.Cost) {
			f := &h.files[id%n]
			form := f.is
			_, at := math.Modf(float64(id%n) * (math.Sqrt(5) - 1) / 2) // evenly from 0 to 1 in any range
			switch {
			case form != shard.Encoded:
			case at < raws:
				form = shard.Raw
			case at < raws+packs:
				form = shard.Packed
			}
			return int64(h.scale * f.bytes[form]), form
		})
		h.ratios[[2]int{raw, packed}] = ratio
	}
	return ratio
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
