package resample

import "math"

// Choose decides everything about a sample of h x w upright pixels, both at least 1. It depends
// on nothing but its arguments and the options; the package comment says which numbers are
// random and how they are drawn.
func (o Options) Choose(epoch int, sample int64, h, w int) Transform {
	d := draws{key: o.Seed, epoch: uint32(epoch), sample: uint64(sample)}
	t := Transform{Crop: [4]float64{2: float64(h), 3: float64(w)}, Flip: d.flip(o.Flip)}
	height, width := o.Size(h, w)
	switch o.Mode {
	case NotSmaller:
		resizedH, resizedW := cover(h, w, height, width)
		t.Y, t.Crop[0], t.Crop[2] = cut(h, resizedH, (resizedH-height+1)/2, height) // halves up, as in DALI
		t.X, t.Crop[1], t.Crop[3] = cut(w, resizedW, (resizedW-width+1)/2, width)
	case CenterCrop:
		resizedH, resizedW := shortSide(h, w, o.ResizeTo)
		t.Y, t.Crop[0], t.Crop[2] = cut(h, resizedH, halfToEven(resizedH-height), height)
		t.X, t.Crop[1], t.Crop[3] = cut(w, resizedW, halfToEven(resizedW-width), width)
	case RandomResizedCrop:
		win := o.window(d, h, w)
		t.Y, t.X = fit(win.y, win.y+win.h, height), fit(win.x, win.x+win.w, width)
		t.Crop = [4]float64{float64(win.y), float64(win.x), float64(win.h), float64(win.w)}
	default:
		t.Y, t.X = fit(0, h, height), fit(0, w, width)
	}
	return t
}

// Size returns the result's size for a source of h x w pixels. No random choice changes it.
func (o Options) Size(h, w int) (oh, ow int) {
	switch o.Mode {
	case Stretch, NotSmaller, CenterCrop, RandomResizedCrop:
		return o.Height, o.Width
	case NotLarger:
		if widens(h, w, o.Height, o.Width) {
			return scaled(h, o.Width, w, 1), o.Width
		}
		return o.Height, scaled(w, o.Height, h, 1)
	}
	return h, w
}

// widens reports whether h x w is wider, in proportion, than height x width.
func widens(h, w, height, width int) bool {
	return int64(w)*int64(height) > int64(h)*int64(width)
}

// cover returns the smallest size with the proportions of h x w that contains height x width.
func cover(h, w, height, width int) (resizedH, resizedW int) {
	if widens(h, w, height, width) {
		return height, scaled(w, height, h, width)
	}
	return scaled(h, width, w, height), width
}

// shortSide returns the size of h x w with its short side resized to n. The long one is rounded
// down, as torchvision's Resize does.
func shortSide(h, w, n int) (resizedH, resizedW int) {
	if h <= w {
		return n, int(int64(n) * int64(w) / int64(h))
	}
	return int(int64(n) * int64(h) / int64(w)), n
}

// halfToEven returns n/2 rounded to nearest, halves to even, as Python rounds for torchvision's
// CenterCrop.
func halfToEven(n int) int { return int(math.RoundToEven(float64(n) / 2)) }

// scaled returns n·to/from to nearest, halves up, and at least least.
func scaled(n, to, from, least int) int {
	v := (2*int64(n)*int64(to) + int64(from)) / (2 * int64(from))
	return max(int(v), least)
}

// cut returns the axis that resizes n pixels to resized and keeps some of them, from first on. It
// also returns the visible part of the source.
func cut(n, resized, first, keep int) (a Axis, from, size float64) {
	a = fit(0, n, resized)
	a.First, a.N = first, keep
	a.Start = onGrid(part(first, n, resized))
	return a, part(first, n, resized), part(keep, n, resized)
}

// part returns how much of the n source pixels x of the resized ones cover.
func part(x, n, resized int) float64 {
	return float64(float64(x)*float64(n)) / float64(resized)
}
