package profile

// tenths is how many steps there are from all encoded to all raw.
const tenths = 10

// search finds the best of the mixes 0 to n, n+1 of them, of which each has more raw
// samples than the one before. It measures a mix and learns which of the two is the
// slower: mixes up to one that decoding limits can only be worse than it, and so
// can mixes from one that loading limits. rises says that loading, too, gets
// faster with more raw samples, so that there is never a reason for fewer.
//
// It measures at most ceil(log2(n+2)) mixes: 4 of 11. told gets each with the range of
// mixes that may still be best.
func search(n int, rises bool, measure func(mix int) (Point, error), told func(p Point, from, to int)) (best int, err error) {
	// No mix up to low but low itself can be best, and none from high on but high
	// itself; both are measured, or beyond the ends.
	low, high := -1, n+1
	fastest := Rate(-1)
	for high-low > 1 {
		mid := (low + high) / 2
		p, err := measure(mid)
		if err != nil {
			return 0, err
		}
		if t := p.Throughput(); t > fastest {
			best, fastest = mid, t
		}
		if p.Limit() == Loading && !rises {
			high = mid
		} else {
			low = mid
		}
		from, to := max(low, 0), min(high, n)
		if high-low == 1 {
			from, to = best, best
		}
		told(p, from, to)
	}
	return best, nil
}
