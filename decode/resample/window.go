package resample

import "math"

// tries is the number of random windows that are tried before the fallback.
const tries = 10

// window is a rectangle of whole pixels.
type window struct{ y, x, h, w int }

// window draws a window from h x w pixels. All arithmetic is on float64 and rounded after each
// operation; the conversions enforce that where a processor could fuse two.
func (o Options) window(d draws, h, w int) window {
	ratios := spanOf(o.CropRatio[0], o.CropRatio[1])
	pixels := float64(int64(h) * int64(w))
	for n := range uint32(tries) {
		u := d.block(blockTry + n)
		area := float64(pixels * float64(o.CropArea[0]+float64(unit(u[0])*(o.CropArea[1]-o.CropArea[0]))))
		ratio := exp2(ratios.low + float64(unit(u[1])*ratios.size))
		width := math.Floor(math.Sqrt(float64(area*ratio)) + 0.5)
		height := math.Floor(math.Sqrt(float64(area/ratio)) + 0.5)
		if width >= 1 && height >= 1 && width <= float64(w) && height <= float64(h) {
			win := window{h: int(height), w: int(width)}
			u := d.block(blockAnchor)
			win.y, win.x = below(h-win.h+1, u[0]), below(w-win.w+1, u[1])
			return win
		}
	}
	return o.largest(h, w)
}

// largest returns the largest window in the middle of h x w pixels whose ratio is allowed.
func (o Options) largest(h, w int) window {
	win := window{h: h, w: w}
	switch ratio := float64(w) / float64(h); {
	case ratio < o.CropRatio[0]:
		win.h = nearest(float64(w)/o.CropRatio[0], h)
	case ratio > o.CropRatio[1]:
		win.w = nearest(float64(h)*o.CropRatio[1], w)
	}
	win.y, win.x = (h-win.h)/2, (w-win.w)/2
	return win
}

// nearest returns the nearest whole number in [1, most].
func nearest(x float64, most int) int {
	return int(min(max(math.Floor(float64(x)+0.5), 1), float64(most)))
}
