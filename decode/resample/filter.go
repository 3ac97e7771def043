package resample

// A Filter is one axis of a transform in whole numbers, from which other implementations make the
// same pixels as [Resize]. First rows are combined into a line: each of its values is the sum of
// the taps times their weights, rounded by adding half a unit and shifting right by Shift. Then the
// columns of the line are combined in the same way.
type Filter struct {
	First, Size int // the source's pixels with a weight are [First, First+Size)
	Taps        int // weights per output, an even number, which may be Size+1: the last one is then 0
	Shift       int

	axis  Axis
	fixed fixed
}

// Filters returns both axes. ok is false if the transform is not valid, or has steps of more than
// 128 pixels, whose weights do not fit 16 bits.
func (t Transform) Filters() (y, x Filter, ok bool) {
	if !t.Y.sound() || !t.X.sound() || t.Y.Step > narrow || t.X.Step > narrow {
		return Filter{}, Filter{}, false
	}
	j := newJob(t, 1)
	y = Filter{j.top, j.rows, j.y.taps, j.y.shift - lineBits, t.Y, j.y}
	x = Filter{j.left, j.columns, j.x.taps, j.x.shift + lineBits, t.X, j.x}
	return y, x, true
}

// Span is an upper bound of how many source pixels the taps of n neighbouring outputs extend over.
func (f Filter) Span(n int) int { return int(f.axis.Step*float64(n-1)) + f.Taps + 2 }

// Fill computes the weights of every output, Taps each, and at: its first tap's pixel, relative to
// First. The slices must have exactly the needed length, and belong to the caller.
func (f Filter) Fill(at []int32, weights []int16) {
	f.fixed.fill(f.axis, f.First, f.Size, 1, at, weights)
}
