package profile

import (
	"math"

	"github.com/batchfs/batchfs/internal/convert"
	"github.com/batchfs/batchfs/shard"
)

// A model is the cost of an image of each form, and the effect of the cache.
type model struct {
	load, decode costs
	hits         func(convert.Shares) float64
}

// costs are seconds per image of each form.
type costs [shard.NumCosts]float64

func (c *costs) at(s convert.Shares) (seconds float64) {
	for f := range c {
		seconds += s.Of(shard.Cost(f)) * c[f]
	}
	return seconds
}

// fit returns the costs that best explain the measured rates, by least squares of the relative
// errors. Costs are never negative: where one would be, it is 0, and the others are what is best
// then.
func fit(points []Point, rate func(Point) Rate) (best costs) {
	// Normal equations of: the sum over the forms of share·rate·cost is 1.
	var a [shard.NumCosts][shard.NumCosts]float64
	var b costs
	for _, p := range points {
		y := float64(rate(p))
		if math.IsInf(y, 1) {
			continue
		}
		for i := range b {
			u := y * p.Of(shard.Cost(i))
			b[i] += u
			for k := range b {
				a[i][k] += u * y * p.Of(shard.Cost(k))
			}
		}
	}
	least := math.Inf(1)
	for some := 1; some < 1<<shard.NumCosts; some++ { // which forms cost anything
		c, ok := solve(a, b, some)
		// The sum of squares, but for the number of points.
		off := 0.0
		for i := range c {
			ok = ok && c[i] >= 0
			off -= 2 * b[i] * c[i]
			for k := range c {
				off += c[i] * a[i][k] * c[k]
			}
		}
		if ok && off < least {
			best, least = c, off
		}
	}
	if alike, off := meanCost(a, b); off <= least+1e-9 {
		return alike // a single mix says nothing about the difference
	}
	return best
}

// meanCost is the best cost that is the same for all forms, and the sum of squares as in fit.
func meanCost(a [shard.NumCosts][shard.NumCosts]float64, b costs) (alike costs, off float64) {
	var all, sum float64
	for i := range b {
		sum += b[i]
		for k := range b {
			all += a[i][k]
		}
	}
	mean := sum / max(all, math.SmallestNonzeroFloat64)
	for i := range alike {
		alike[i] = mean
	}
	return alike, mean*mean*all - 2*mean*sum
}

// solve solves the equations for some of the costs, those in a set of bits; the others are 0. ok is
// false if they do not say what these are.
func solve(a [shard.NumCosts][shard.NumCosts]float64, b costs, some int) (c costs, ok bool) {
	for i := range b {
		if some>>i&1 == 0 {
			a[i], b[i] = [shard.NumCosts]float64{}, 0
			for k := range b {
				a[k][i] = 0
			}
			a[i][i] = 1
		}
	}
	for i := range b { // the matrix is symmetric and not negative: no pivots
		if a[i][i] <= 0 {
			return c, false
		}
		for k := i + 1; k < len(b); k++ {
			f, before := a[k][i]/a[i][i], a[k][k]
			for j := i; j < len(b); j++ {
				a[k][j] -= f * a[i][j]
			}
			b[k] -= f * b[i]
			if a[k][k] <= 1e-9*before {
				return c, false
			}
		}
	}
	for i := len(b) - 1; i >= 0; i-- {
		c[i] = b[i]
		for k := i + 1; k < len(b); k++ {
			c[i] -= a[i][k] * c[k]
		}
		c[i] /= a[i][i]
	}
	return c, true
}

func modelOf(points []Point, hits func(convert.Shares) float64) model {
	storage := func(p Point) Rate { return p.Storage }
	decoding := func(p Point) Rate { return p.Decoding }
	return model{load: fit(points, storage), decode: fit(points, decoding), hits: hits}
}

func (m model) at(s convert.Shares) Point {
	return pointOf(s, m.hits(s), m.load.at(s), m.decode.at(s))
}

// best is the first of the mixes with the highest throughput: about where loading and decoding are
// equally fast, or one of the ends. A difference too small to measure is no reason to store more.
func (m model) best(mixes []convert.Shares) convert.Shares {
	best := m.at(mixes[0])
	for _, s := range mixes[1:] {
		if p := m.at(s); p.Throughput > best.Throughput*(1+1e-9) {
			best = p
		}
	}
	return best.Shares
}
