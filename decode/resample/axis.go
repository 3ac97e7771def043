package resample

import (
	"math"
	"math/bits"
)

// Coordinates are on a grid of 2^-32 pixels, so that adding whole pixels to them is exact: a
// region decoded by itself is filtered with the same weights, to the last bit, as within the
// whole image.
const grid = 1 << 32

// toGrid returns x in units of the grid, rounded to nearest, halves up.
func toGrid(x float64) int64 {
	v := float64(x * grid)
	f := math.Floor(v)
	if v-f >= 0.5 {
		f++
	}
	return int64(f)
}

// onGrid returns x rounded to the grid, or to a float64 where that is coarser.
func onGrid(x float64) float64 { return float64(toGrid(x)) / grid }

// fit returns the axis that resizes the pixels in [lo, hi) to n.
func fit(lo, hi, n int) Axis {
	return Axis{Start: float64(lo), Step: onGrid(float64(hi-lo) / float64(n)), Lo: lo, Hi: hi, N: n, Whole: n}
}

// Nearest returns the pixel that output i shows if pixels are chosen rather than filtered, as in
// masks: the one that contains its centre; if two meet there, the later one. Unlike Start and Step,
// which are on the grid, it is exact. It has no meaning after Reduced.
func (a Axis) Nearest(i int) int {
	high, low := bits.Mul64(uint64(2*(a.First+i)+1), uint64(a.Hi-a.Lo))
	q, _ := bits.Div64(high, low, uint64(2*a.Whole))
	return a.Lo + min(int(q), a.Hi-a.Lo-1)
}

// Output returns where a point of the source is in the result. As in Nearest, an end of the source
// is exactly the end of the result. It has no meaning after Reduced.
func (a Axis) Output(at float64) float64 {
	return (at-float64(a.Lo))*float64(a.Whole)/float64(a.Hi-a.Lo) - float64(a.First)
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

// source returns the range that contains the taps of all outputs.
func (a Axis) source() (lo, hi int) {
	if a.N < 1 {
		return a.Lo, a.Lo
	}
	f := a.filter()
	lo, _, _ = f.taps(0)
	_, hi, _ = f.taps(a.N - 1)
	return lo, hi
}

// slack is how far, in pixels, outputs may extend beyond [Lo, Hi), to allow for accumulated
// rounding to the grid.
const slack = 1. / 1024

// sound reports whether every output has its centre, and its share of the source, in [Lo, Hi).
// Then it has taps, and no weight is large enough for the arithmetic to overflow.
func (a Axis) sound() bool {
	return a.N >= 1 && a.N < maxSource && a.Step > 0 && a.Lo > -maxSource && a.Hi < maxSource &&
		a.Start >= float64(a.Lo)-slack && a.Start+float64(float64(a.N)*a.Step) <= float64(a.Hi)+slack
}

// maxSource limits coordinates: no image is larger, and numbers on the grid fit 63 bits.
const maxSource = 1 << 28

// filter is an axis in units of half the grid, in which centres and edges of pixels are
// integers.
type filter struct {
	first, step int64 // the centre of output 0, and the distance between centres
	support     int64 // distance from a centre to the end of its weights: one step, but at least one pixel
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

// taps returns the pixels [lo, hi) that have a weight in output i, and its centre.
func (f *filter) taps(i int) (lo, hi int, centre int64) {
	centre = f.first + int64(i)*f.step
	// Pixel j has a weight if |j + 1/2 - centre| < support.
	lo = int((centre - f.support + pixel/2) >> pixelBits)
	hi = int((centre + f.support + pixel/2 - 1) >> pixelBits)
	return max(lo, f.lo), min(hi, f.hi), centre
}

// offset returns the distance from a centre to that of pixel j; the pixel's weight is the
// support minus the absolute offset.
func (f *filter) offset(j int, centre int64) int64 {
	return int64(j)<<pixelBits + pixel/2 - centre
}
