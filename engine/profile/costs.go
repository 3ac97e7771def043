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

// fit returns the costs that best explain the measurements, by least squares of the
// relative errors. Costs are never negative.
func fit(raw, seconds []float64) line {
	var aa, ab, bb, a, b float64 // normal equations for (1-x)/y·encoded + x/y·raw = 1
	for i, x := range raw {
		y := seconds[i]
		if y <= 0 {
			continue
		}
		u, v := (1-x)/y, x/y
		aa, ab, bb, a, b = aa+u*u, ab+u*v, bb+v*v, a+u, b+v
	}
	if det := aa*bb - ab*ab; det > 1e-9*aa*bb {
		l := line{(a*bb - b*ab) / det, (b*aa - a*ab) / det}
		switch {
		case l.encoded >= 0 && l.raw >= 0:
			return l
		case l.encoded < 0:
			return line{0, b / bb}
		}
		return line{a / aa, 0}
	}
	// A single mix says nothing about the difference.
	if sum := aa + 2*ab + bb; sum > 0 {
		mean := (a + b) / sum
		return line{mean, mean}
	}
	return line{}
}

func modelOf(points []Point, hits func(raw float64) float64) model {
	var raw, load, decode []float64
	for _, p := range points {
		raw = append(raw, p.RawRatio)
		load, decode = append(load, p.Storage.seconds()), append(decode, p.Decoding.seconds())
	}
	return model{load: fit(raw, load), decode: fit(raw, decode), hits: hits}
}

// loading is seconds per image, taking the cache into account.
func (m model) loading(raw float64) float64 { return (1 - m.hits(raw)) * m.load.at(raw) }

func (m model) at(raw float64) Point {
	return Point{
		RawRatio: raw, HitRatio: m.hits(raw), Storage: rateOf(m.load.at(raw)),
		Loading: rateOf(m.loading(raw)), Decoding: rateOf(m.decode.at(raw)),
	}
}

// best is the raw share, from least to 1, with the highest throughput: where loading and
// decoding are equally fast, found by bisection, or one of the ends.
func (m model) best(least float64) float64 {
	slower := func(raw float64) float64 { return m.loading(raw) - m.decode.at(raw) }
	low, high := least, 1.0
	for range 60 {
		if mid := (low + high) / 2; slower(mid) <= 0 {
			low = mid
		} else {
			high = mid
		}
	}
	best, fastest := least, math.Inf(-1)
	for _, raw := range []float64{least, low, 1} {
		// A difference too small to measure is no reason to store more.
		if t := float64(m.at(raw).Throughput()); t > fastest*(1+1e-9) || fastest < 0 {
			best, fastest = raw, t
		}
	}
	return best
}

// curve samples the model in n equal steps.
func (m model) curve(n int) []Point {
	points := make([]Point, n+1)
	for i := range points {
		points[i] = m.at(float64(i) / float64(n))
	}
	return points
}
