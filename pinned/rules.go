package pinned

// A capacity is how much an ordinary host buffer holds, and what decides when
// that changes. It is a value without any memory behind it: the rules are in after.
type capacity struct {
	held   int64 // bytes, in whole units
	floor  int64 // what it was presized to, in whole units
	lately int64 // the largest request since the last change or the last look back
	asked  int   // how many requests that were
}

// hostUnit is what host buffers grow and shrink by. It is small against any
// image, and sizes that differ a little are mostly the same in units.
const hostUnit = 64 << 10

// window is over how many requests a buffer looks back before it shrinks.
const window = 16

// after is the capacity once n bytes have been asked for. Sizes are compared in
// whole units.
//
//   - nothing asked for: nothing changes, and it does not count as a request;
//   - more than is held: max(n, held*growth);
//   - every 16 requests that fit: if the largest of them was less than
//     held*threshold, then that largest one, but never less than was presized;
//   - otherwise: nothing changes.
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

// presized is the capacity that is at least n bytes from now on.
func (c capacity) presized(n int64) capacity {
	c.floor = max(c.floor, roundUp(n, hostUnit))
	c.held = max(c.held, c.floor)
	return c
}

// grown is what becomes of held bytes that are too few for need: max(need,
// held*factor) in whole units. A factor below 1 counts as 1.
func grown(held, need int64, factor float64, unit int64) int64 {
	if margin := float64(held) * factor; margin > float64(need) {
		return roundUp(int64(margin), unit)
	}
	return roundUp(need, unit)
}

func roundUp(n, unit int64) int64 { return (n + unit - 1) / unit * unit }
