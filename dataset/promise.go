package dataset

import "strconv"

// promise is what a manifest says of an image's size, upright; 0: nothing. It stands
// in the table as the size of a row that was not scanned or that has a problem.
type promise struct{ height, width int32 }

// promise returns what a manifest says of a row that is yet to be scanned, if it
// says anything.
func (s *store) promise(i int) (p promise, given bool) {
	p = promise{s.heights[i], s.widths[i]}
	return p, p != promise{}
}

// holds says whether an image, upright, is what was promised.
func (p promise) holds(h Header) bool {
	return (p.height == 0 || int(p.height) == h.Height) && (p.width == 0 || int(p.width) == h.Width)
}

// String is the size as users read it.
func (p promise) String() string {
	text := func(n int32) string {
		if n == 0 {
			return "?"
		}
		return strconv.Itoa(int(n))
	}
	return text(p.height) + "x" + text(p.width)
}
