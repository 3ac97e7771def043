package profile

import "math"

// A model is the cost of an image of each kind, and the effect of the cache.
type model struct {
	load, decode line
	hits         func(raw float64) float64
}

// A line is seconds per image, linear in the share of raw images.
type line struct{ encoded, raw float64 }

func (l line) at(raw float64) float64 { return (1-raw)*l.encoded + raw*l.raw }

// fit returns the costs that best explain the measured rates, by least squares of the relative
// errors. Costs are never negative.
func fit(points []Point, rate func(Point) Rate) line {
	var aa, ab, bb, a, b float64 // normal equations for (1-x)·y·encoded + x·y·raw = 1
	for _, p := range points {
		if x, y := p.RawRatio, float64(rate(p)); !math.IsInf(y, 1) {
			u, v := (1-x)*y, x*y
			aa, ab, bb, a, b = aa+u*u, ab+u*v, bb+v*v, a+u, b+v
		}
	}
	if det := aa*bb - ab*ab; det > 1e-9*aa*bb {
		l := line{(a*bb - b*ab) / det, (b*aa - a*ab) / det}
		if l.encoded < 0 {
			l = line{0, b / bb}
		} else if l.raw < 0 {
			l = line{a / aa, 0}
		}
		return l
	}
	// A single mix says nothing about the difference.
	mean := (a + b) / max(aa+2*ab+bb, math.SmallestNonzeroFloat64)
	return line{mean, mean}
}

func modelOf(points []Point, hits func(raw float64) float64) model {
	storage := func(p Point) Rate { return p.Storage }
	decoding := func(p Point) Rate { return p.Decoding }
	return model{load: fit(points, storage), decode: fit(points, decoding), hits: hits}
}

func (m model) at(raw float64) Point {
	return pointOf(raw, m.hits(raw), m.load.at(raw), m.decode.at(raw))
}

// best is the raw share, from least to 1, with the highest throughput: about where loading and
// decoding are equally fast, or one of the ends.
func (m model) best(least float64) float64 {
	best := m.at(least)
	for _, p := range m.curve() {
		// A difference too small to measure is no reason to store more.
		if p.RawRatio > least && p.Throughput > best.Throughput*(1+1e-9) {
			best = p
		}
	}
	return best.RawRatio
}

// curve is the model at each percent.
func (m model) curve() []Point {
	points := make([]Point, 101)
	for i := range points {
		points[i] = m.at(float64(i) / 100)
	}
	return points
}
