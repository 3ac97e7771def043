package profile

import (
	"math"
	"sort"

	"github.com/batchfs/batchfs/cache"
	"github.com/batchfs/batchfs/internal/convert"
	"github.com/batchfs/batchfs/internal/engine"
	"github.com/batchfs/batchfs/internal/sample"
	"github.com/batchfs/batchfs/shard"
)

// hitTable tells the share of reads that the mount's cache serves, for every mix of the whole
// dataset.
type hitTable struct {
	limit   int64          // of the cache
	already convert.Shares // in the dataset
	left    bool           // the cache is ignored, see Options.Samples
	budget  engine.Budget
	scale   float64
	is      []shard.Cost              // forms of some files
	sizes   [][shard.NumCosts]float64 // sizes of these files in their own and in other forms; the same if a form is impossible
	ratios  map[[2]int]float64        // by steps of raw and packed images, if known
}

const (
	hitSteps   = 50
	hitSamples = 1 << 17 // enough samples to know the sizes
)

// newHitTable makes the table from the sizes of the dataset's files, or of some taken evenly. Files
// whose size the index lacks count as unknown bytes, and packing multiplies a size by growth.
// samples is as in Options: for a cache, more samples are like larger ones.
func newHitTable(c engine.Budget, raw convert.Options, unknown, growth float64, samples int, forms path) *hitTable {
	h := &hitTable{
		limit: c.CacheLimit(), budget: c, ratios: map[[2]int]float64{},
		scale: max(1, float64(samples)/float64(c.Dataset.Len())),
	}
	ds, n := c.Dataset, int64(min(c.Dataset.Len(), hitSamples))
	var already [shard.NumCosts]float64
	for k := range n {
		i := int(k * int64(ds.Len()) / n)
		size := unknown
		if id := ds.Stat(i); id.Known() {
			size = float64(id.Size)
		}
		is, sizes := sample.CostOf(ds, i), [shard.NumCosts]float64{size, size, size}
		if already[is]++; is == shard.Encoded {
			sizes[shard.Packed] *= growth
			if height, width := ds.Size(i, raw.IgnoreOrientation); height > 0 {
				sizes[shard.Raw] = float64(raw.FileBytes(height, width))
			}
		}
		h.is, h.sizes = append(h.is, is), append(h.sizes, sizes)
	}
	h.already = convert.Shares{Raw: already[shard.Raw] / float64(n), Packed: already[shard.Packed] / float64(n)}
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

// step is the share of hits for numbers of steps of raw and of packed images.
func (h *hitTable) step(raw, packed int) float64 {
	packed = min(packed, hitSteps-raw)
	ratio, known := h.ratios[[2]int{raw, packed}]
	if !known {
		every := func(int, shard.Cost) bool { return true }
		forms := spread(h.is, every, convert.Shares{Raw: float64(raw) / hitSteps, Packed: float64(packed) / hitSteps})
		n := int64(len(forms))
		_, ratio = h.budget.CacheSize(func(id int64) (int64, shard.Cost) {
			form := forms[id%n]
			return int64(h.scale * h.sizes[id%n][form]), form
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

// among chooses a share of all numbers. Any range has its share of them, to within one.
func among(k int64, share float64) bool {
	return math.Floor(float64(k+1)*share+0.5) > math.Floor(float64(k)*share+0.5)
}
