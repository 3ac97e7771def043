package profile

// tenths is the number of steps from all encoded to all raw.
const tenths = 10

// search finds the best of the mixes 0 to n, ordered by increasing share of raw samples.
// Measuring a mix shows whether loading or decoding is slower. If decoding limits it, mixes
// with fewer raw samples can only be worse; if loading limits it, mixes with more can only
// be worse. rises says that loading, too, gets faster with more raw samples, so that fewer
// are never better.
//
// It measures at most ceil(log2(n+2)) mixes: 4 of 11. told receives each with the range of
// mixes that may still be best.
func search(n int, rises bool, measure func(mix int) (Point, error), told func(p Point, from, to int)) (best int, err error) {
	// No mix up to low except low itself can be best, and none from high on except high
	// itself. Both are measured or out of range.
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
