package resample

import "math"

// Coordinates are kept on a grid of 2^-32 pixels. So what is added to them, a whole number of
// pixels, is added exactly, and a region decoded by itself is filtered with the same
// weights, to the last bit, as where it lies in the whole image.
const grid = 1 << 32

// toGrid is x in units of the grid, to nearest, halves up.
func toGrid(x float64) int64 {
	v := float64(x * grid)
	f := math.Floor(v)
	if v-f >= 0.5 {
		f++
	}
	return int64(f)
}

// onGrid is x rounded to the grid, or to a float64 where that is coarser.
func onGrid(x float64) float64 { return float64(toGrid(x)) / grid }

// whole is the axis that copies n pixels.
func whole(n int) Axis { return Axis{Step: 1, Hi: n, N: n} }

// fit is the axis that makes n pixels of those in [lo, hi).
func fit(lo, hi, n int) Axis {
	return Axis{Start: float64(lo), Step: onGrid(float64(hi-lo) / float64(n)), Lo: lo, Hi: hi, N: n}
}

func (a Axis) copies() bool { return a.Step == 1 && a.Start == math.Floor(a.Start) }

func (a Axis) reduced(scale int, off float64) Axis {
	by := 1 / float64(scale)
	a.Start = float64(a.Start*by) + off
	a.Step *= by
	a.Lo = int(math.Floor(float64(float64(a.Lo)*by) + off))
	a.Hi = int(math.Ceil(float64(float64(a.Hi)*by) + off))
	return a
}

func (a Axis) moved(by int) Axis {
	a.Start -= float64(by)
	a.Lo -= by
	a.Hi -= by
	return a
}

// source is where the taps of all outputs lie.
func (a Axis) source() (lo, hi int) {
	if a.N < 1 {
		return a.Lo, a.Lo
	}
	f := a.filter()
	lo, _, _ = f.taps(0)
	_, hi, _ = f.taps(a.N - 1)
	return lo, hi
}

// slack is how far, in pixels, outputs may reach out of [Lo, Hi): what rounding to the
// grid adds up to, and no more than that.
const slack = 1. / 1024

// sound reports whether every output has its centre in [Lo, Hi) and its share of it: then it
// has taps, and no weight is so large that the arithmetic could overflow.
func (a Axis) sound() bool {
	return a.N >= 1 && a.N < maxSource && a.Step > 0 && a.Lo > -maxSource && a.Hi < maxSource &&
		a.Start >= float64(a.Lo)-slack && a.Start+float64(float64(a.N)*a.Step) <= float64(a.Hi)+slack
}

// maxSource bounds coordinates: no image is larger, and the grid's numbers fit 63 bits.
const maxSource = 1 << 28

// filter is an axis in units of half the grid, in which centres and edges of
// pixels are whole numbers.
type filter struct {
	first, step int64 // the centre of output 0, and from one to the next
	support     int64 // how far from a centre its weights end: one step, but at least one pixel
	lo, hi      int
}

const (
	pixel     = 2 * grid // one pixel in a filter's units
	pixelBits = 33
)

func (a Axis) filter() filter {
	start, step := toGrid(a.Start), toGrid(a.Step)
	return filter{first: 2*start + step, step: 2 * step, support: max(2*step, pixel), lo: a.Lo, hi: a.Hi}
}

// taps are the pixels [lo, hi) that have a weight in output i, and its centre.
func (f *filter) taps(i int) (lo, hi int, centre int64) {
	centre = f.first + int64(i)*f.step
	// Pixel j has one where |j + 1/2 - centre| < support.
	lo = int((centre - f.support + pixel/2) >> pixelBits)
	hi = int((centre + f.support + pixel/2 - 1) >> pixelBits)
	return max(lo, f.lo), min(hi, f.hi), centre
}

// offset from a centre to that of pixel j; its weight is the support less what that is
// to either side.
func (f *filter) offset(j int, centre int64) int64 {
	return int64(j)<<pixelBits + pixel/2 - centre
}
