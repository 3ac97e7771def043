package pinned

// A capacity is how much an ordinary host buffer holds, with the state that decides when that
// changes. It is a plain value without memory: after implements the rules.
type capacity struct {
	held   int64 // bytes, in whole units
	floor  int64 // the presized minimum, in whole units
	lately int64 // the largest request since the last change or window
	asked  int   // the number of such requests
}

const (
	// hostUnit is the unit by which host buffers grow and shrink. It is small compared to any
	// image, and similar sizes are mostly the same number of units.
	hostUnit = 64 << 10
	// window is the number of requests over which a buffer looks back before it shrinks.
	window = 16
)

// after returns the capacity after a request for n bytes, by the rules in the package comment. A
// request for nothing does not count.
func (c capacity) after(n int64, p Policy) capacity {
	if n <= 0 {
		return c
	}
	need := roundUp(n, hostUnit)
	if need > c.held {
		return capacity{held: max(grown(c.held, need, p.HostGrowth, hostUnit), c.floor), floor: c.floor}
	}
	c.lately = max(c.lately, need)
	if c.asked++; c.asked < window {
		return c
	}
	if float64(c.lately) < float64(c.held)*p.ShrinkThreshold {
		c.held = max(c.lately, c.floor)
	}
	c.lately, c.asked = 0, 0
	return c
}

// presized returns the capacity with a minimum of n bytes from now on.
func (c capacity) presized(n int64) capacity {
	c.floor = max(c.floor, roundUp(n, hostUnit))
	c.held = max(c.held, c.floor)
	return c
}

// grown returns the new size when held bytes are too few for need: max(need, held*factor) in
// whole units. A factor below 1 counts as 1.
func grown(held, need int64, factor float64, unit int64) int64 {
	if margin := float64(held) * factor; margin > float64(need) {
		return roundUp(int64(margin), unit)
	}
	return roundUp(need, unit)
}

func roundUp(n, unit int64) int64 { return (n + unit - 1) / unit * unit }
