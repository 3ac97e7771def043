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
// errors. A cost that would be negative is 0, and the others are the best for that.
func fit(points []Point, rate func(Point) Rate) (c costs) {
	// Normal equations of: the sum over the forms of share·rate·cost is 1.
	var a [shard.NumCosts][shard.NumCosts]float64
	var b costs
	var left, right float64 // their sums
	for _, p := range points {
		y := float64(rate(p))
		if math.IsInf(y, 1) {
			continue
		}
		for i := range b {
			u := y * p.Of(shard.Cost(i))
			b[i] += u
			right += u
			for k := range b {
				v := u * y * p.Of(shard.Cost(k))
				a[i][k] += v
				left += v
			}
		}
	}
	// The best cost that all forms share comes first: a single mix says nothing about the
	// difference. Then each round solves one equation after another (Gauss and Seidel).
	const rounds = 10_000
	for round := range 1 + rounds {
		for i := range c {
			if a[i][i] == 0 { // no mix has the form, or it costs nothing
				continue
			}
			if round == 0 {
				c[i] = right / left
				continue
			}
			off := b[i]
			for k := range c {
				off -= a[i][k] * c[k]
			}
			c[i] = max(0, c[i]+off/a[i][i])
		}
	}
	return c
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
// equally fast, or one of the ends. A difference too small to measure does not justify storing
// more.
func (m model) best(mixes []convert.Shares) convert.Shares {
	best := m.at(mixes[0])
	for _, s := range mixes[1:] {
		if p := m.at(s); p.Throughput > best.Throughput*(1+1e-9) {
			best = p
		}
	}
	return best.Shares
}
