package resample

// Transform is what happens to one sample, fully decided before its pixels are
// there. A plain value.
type Transform struct {
	Y, X Axis
	// Flip asks whoever places the pixels to mirror them horizontally. Resize does not.
	Flip bool
	// Crop is y, x, height and width of the window of the upright source that the result
	// shows, for documents: pixels are made from Y and X. NotSmaller crops after
	// it has resized, so there these are fractions of pixels: what the resized window covers.
	Crop [4]float64
}

// Axis maps outputs to the source, in which pixel j covers [j, j+1): output i of
// N has its centre at Start + (i+0.5)·Step, and no pixel outside [Lo, Hi) has a part in it.
type Axis struct {
	Start, Step float64
	Lo, Hi, N   int
}

// Size is that of the result, in pixels.
func (t Transform) Size() (h, w int) { return t.Y.N, t.X.N }

// Copies reports whether the result's pixels are the source's: nothing is filtered.
func (t Transform) Copies() bool { return t.Y.copies() && t.X.copies() }

// Source is the smallest rectangle outside of which no pixel has any weight.
func (t Transform) Source() (y, x, h, w int) {
	y, bottom := t.Y.source()
	x, right := t.X.source()
	return y, x, bottom - y, right - x
}

// scaleMargin is how many pixels of the smaller image one step has to be at least.
const scaleMargin = 2

// Scale is what to decode a JPEG at: 1/1, 1/2, 1/4 or 1/8. It depends on the transform
// alone; see the package comment for the rule and what it costs.
func (t Transform) Scale() int {
	for scale := 8; scale > 1; scale /= 2 {
		if least := float64(scale * scaleMargin); t.Y.Step >= least && t.X.Step >= least {
			return scale
		}
	}
	return 1
}

// Reduced is the same transform of the image decoded at 1/scale. offY and offX say how
// far, in pixels of that image, it starts before the true one: where a side is no multiple of
// the scale and the orientation mirrors it.
func (t Transform) Reduced(scale int, offY, offX float64) Transform {
	t.Y, t.X = t.Y.reduced(scale, offY), t.X.reduced(scale, offX)
	return t
}

// Moved is the same transform of the part of the source that starts at (y, x).
func (t Transform) Moved(y, x int) Transform {
	t.Y, t.X = t.Y.moved(y), t.X.moved(x)
	return t
}
