package dataset

import "strconv"

// promise is the upright size that a manifest gives an image; 0: not given. The table holds it
// as the size of a row that has not been scanned or has a problem.
type promise struct{ height, width int32 }

// promise returns what the manifest says about a row that is not scanned yet, if anything.
func (s *store) promise(i int) (p promise, given bool) {
	p = promise{s.heights[i], s.widths[i]}
	return p, p != promise{}
}

// holds says whether an upright image has the promised size.
func (p promise) holds(h Header) bool {
	return (p.height == 0 || int(p.height) == h.Height) && (p.width == 0 || int(p.width) == h.Width)
}

// String formats the size for users.
func (p promise) String() string {
	text := func(n int32) string {
		if n == 0 {
			return "?"
		}
		return strconv.Itoa(int(n))
	}
	return text(p.height) + "x" + text(p.width)
}
