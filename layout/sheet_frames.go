package layout

import "math"

// A Frame is a box that the contact sheet shows in a slot: two corners, in pixels of the slot.
type Frame struct {
	Slot   int
	Label  int64 // its colour
	Corner [4]float32
}

// drawFrame draws a box, one pixel wide, in the colour of its label; white where the sheet is gray.
func (g *sheet) drawFrame(dst []byte, f *Frame) {
	// between returns the first and last of n pixels that a box from v to w touches.
	between := func(v, w float32, n int) (first, last int) {
		at := func(v float64) int { return int(max(0, min(v, float64(n-1)))) }
		first = at(float64(v) / float64(g.scale))
		return first, max(first, at(math.Ceil(float64(w)/float64(g.scale))-1))
	}
	left, top := g.place(f.Slot)
	x0, x1 := between(f.Corner[0], f.Corner[2], g.thumbW)
	y0, y1 := between(f.Corner[1], f.Corner[3], g.thumbH)
	x0, x1, y0, y1 = left+x0, left+x1, top+y0, top+y1
	for y := y0; y <= y1; y++ {
		row := g.png.row(dst, y)
		step := max(1, x1-x0)
		if y == y0 || y == y1 {
			step = 1
		}
		for x := x0; x <= x1; x += step {
			g.dot(row[x*g.chans:], f.Label)
		}
	}
}

func (g *sheet) dot(pixel []byte, label int64) {
	if g.chans == 1 {
		pixel[0] = 255
		return
	}
	pixel[0], pixel[1], pixel[2] = classColour(uint32(label) + 1)
}
