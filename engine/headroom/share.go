package headroom

// A Share is how much memory a mount without a limit of its own may use.
type Share struct {
	Limit  int64 // bytes
	Bound  Bound // the bound it follows from
	Mounts int   // the number of mounts that share the bound, including this one
}

// Share is the share of a mount that is about to start.
func (h *Host) Share() Share {
	s := h.share()
	for _, b := range h.Bounds() {
		if half := b.Left / 2; half < s.Limit {
			s.Limit, s.Bound = half, b
		}
	}
	s.Limit = max(s.Limit, 1)
	return s
}

// share is half of each bound's total, divided by the number of mounts within it; the least
// counts.
func (h *Host) share() Share {
	bounds := h.Bounds()
	var least Share
	for i, mounts := range h.Mounts(bounds) {
		if limit := bounds[i].Total / 2 / int64(mounts); i == 0 || limit < least.Limit {
			least = Share{Limit: limit, Bound: bounds[i], Mounts: mounts}
		}
	}
	return least
}

// reserve is what a mount leaves free in a bound for others.
func (b Bound) reserve() int64 { return min(b.Total/16, 256<<20) }
