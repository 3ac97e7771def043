package target

import (
	"math"
	"slices"

	"github.com/batchfs/batchfs/internal/fault"
)

// NoClass is the value in a drawn mask for shapes without a class, such as a crowd.
const NoClass = 255

// errLong is the error of polygons that would take seconds.
var errLong = fault.New(fault.File, "its polygons have too many long edges")

// maxSteps limits the grid points along the polygons of one mask.
const maxSteps = 1 << 28

// Draw draws shapes into a mask of height x width bytes, row by row. A shape gets its class, or
// NoClass if its class is below 0; the rest is 0. A later shape covers an earlier one. A polygon
// covers the same pixels as in COCO's own tools.
func Draw(to []byte, height, width int, shapes []Shape) error {
	clear(to)
	var p painter
	for _, s := range shapes {
		class := byte(NoClass)
		if s.Class >= 0 {
			class = byte(s.Class)
		}
		if s.Polygons == nil {
			fill(to, height, width, s.Runs, class)
		}
		for _, polygon := range s.Polygons {
			p.outline(polygon, height, width)
			if p.steps > maxSteps {
				return errLong
			}
			fill(to, height, width, p.runs, class)
		}
	}
	return nil
}

// fill sets the pixels of every second run, column by column.
func fill(to []byte, height, width int, runs []uint32, class byte) {
	at := 0
	for i, n := range runs {
		end := min(at+int(n), height*width)
		if i%2 == 1 {
			for ; at < end; at++ {
				to[at%height*width+at/height] = class
			}
		}
		at = end
	}
}

// A painter finds the pixels of a polygon.
type painter struct {
	turns, runs []uint32
	steps       int
}

// fine is the number of grid points along the side of a pixel.
const fine = 5

// outline makes the runs of a polygon of x, y, x, y, ... It follows COCO's rleFrPoly: corners are
// rounded to a grid five times as fine as the pixels, and joined by lines with one step at a time
// along their longer side. Where a line enters or leaves the middle column of a pixel's five, a run
// begins or ends in that column of pixels.
func (p *painter) outline(polygon []float64, height, width int) {
	p.turns, p.runs = p.turns[:0], p.runs[:0]
	corner := func(i int) (x, y int) {
		i %= len(polygon) / 2
		return gridPoint(polygon[2*i], width), gridPoint(polygon[2*i+1], height)
	}
	lastU, lastV := corner(0)
	for i := range len(polygon) / 2 {
		x0, y0 := corner(i)
		x1, y1 := corner(i + 1)
		dx, dy := max(x0-x1, x1-x0), max(y0-y1, y1-y0)
		n := max(dx, dy)
		if p.steps += n; n == 0 || p.steps > maxSteps {
			continue
		}
		// A line is the same in both directions: it is computed from its lower end.
		back := dx >= dy && x0 > x1 || dx < dy && y0 > y1
		if back {
			x0, y0, x1, y1 = x1, y1, x0, y0
		}
		for k := range n + 1 {
			if back {
				k = n - k
			}
			u, v := x0+k, y0+k
			if dx >= dy {
				v = int(float64(y0) + float64(y1-y0)/float64(n)*float64(k) + 0.5)
			} else {
				u = int(float64(x0) + float64(x1-x0)/float64(n)*float64(k) + 0.5)
			}
			if u != lastU {
				p.turn(min(u, lastU), min(v, lastV), height, width)
			}
			lastU, lastV = u, v
		}
	}
	slices.Sort(p.turns)
	last := uint32(0)
	for _, at := range append(p.turns, uint32(height*width)) {
		p.runs = append(p.runs, at-last)
		last = at
	}
}

// gridPoint rounds a coordinate to the grid, and limits it relative to the image's side.
func gridPoint(v float64, side int) int {
	most := fine * float64(4096+8*side)
	return int(max(-most, min(fine*v+0.5, most)))
}

// turn begins or ends a run where an outline goes from column u of the grid to the next one, if
// that is in the middle of a pixel.
func (p *painter) turn(u, v, height, width int) {
	if u < 0 || u%fine != fine/2 || u/fine >= width {
		return
	}
	y := math.Ceil((float64(v)+0.5)/fine - 0.5)
	row := uint32(max(0, min(y, float64(height))))
	p.turns = append(p.turns, uint32(u/fine*height)+row)
}
