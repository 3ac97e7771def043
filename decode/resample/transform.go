package resample

// Transform is what happens to one sample, fully decided before its pixels exist. It is a plain
// value.
type Transform struct {
	Y, X Axis
	// Flip requests horizontal mirroring from the sink, which places the pixels. Resize does not
	// mirror.
	Flip bool
	// Crop is y, x, height and width of the window of the upright source that the result shows.
	// It is for documents: pixels are made from Y and X. NotSmaller and CenterCrop crop after
	// resizing, so their values are fractions of pixels: what the resized window covers.
	Crop [4]float64
}

// Axis maps outputs to the source, in which pixel j covers [j, j+1): output i of N has its centre
// at Start + (i+0.5)·Step, and no pixel outside [Lo, Hi) contributes to it. If numbers on the grid
// are not exact enough: [Lo, Hi) is resized to Whole outputs, and output i is number First+i of
// them.
type Axis struct {
	Start, Step  float64
	Lo, Hi, N    int
	First, Whole int
}

// Size returns the result's size, in pixels.
func (t Transform) Size() (h, w int) { return t.Y.N, t.X.N }

// Copies reports whether the result's pixels are the source's, without filtering.
func (t Transform) Copies() bool { return t.Y.copies() && t.X.copies() }

// Source returns the smallest rectangle that contains all pixels with a weight.
func (t Transform) Source() (y, x, h, w int) {
	y, bottom := t.Y.source()
	x, right := t.X.source()
	return y, x, bottom - y, right - x
}

// scaleMargin is the minimum length of a step in pixels of the smaller image.
const scaleMargin = 2

// Scale is the scale at which to decode a JPEG: 1, 2, 4 or 8 for 1/1, 1/2, 1/4 or 1/8. It
// depends on the transform alone; the package comment has the rule and its effect on quality.
func (t Transform) Scale() int {
	for scale := 8; scale > 1; scale /= 2 {
		if least := float64(scale * scaleMargin); t.Y.Step >= least && t.X.Step >= least {
			return scale
		}
	}
	return 1
}

// Reduced returns the same transform for the image decoded at 1/scale. offY and offX are how
// far, in pixels of that image, it starts before the true one. They are not 0 if a side is not a
// multiple of the scale and the orientation mirrors it.
func (t Transform) Reduced(scale int, offY, offX float64) Transform {
	t.Y, t.X = t.Y.reduced(scale, offY), t.X.reduced(scale, offX)
	return t
}

// Moved returns the same transform for the part of the source that starts at (y, x).
func (t Transform) Moved(y, x int) Transform {
	t.Y, t.X = t.Y.moved(y), t.X.moved(x)
	return t
}
