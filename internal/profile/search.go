package profile

// tenths is the number of steps from all encoded to all raw.
const tenths = 10

// search finds the best of the mixes from 0 to 10 tenths of raw samples. Measuring a mix shows
// whether loading or decoding is slower. If decoding limits it, mixes with fewer raw samples can
// only be worse; if loading limits it, mixes with more can only be worse. rises says that
// loading, too, gets faster with more raw samples, so that fewer are never better.
//
// It measures at most 4 mixes.
func search(rises bool, measure func(mix int) (Point, error)) (steps []Step, best int, err error) {
	// No mix up to low except low itself can be best, and none from high on except high
	// itself. Both are measured or out of range.
	low, high := -1, tenths+1
	fastest := Rate(-1)
	for high-low > 1 {
		mid := (low + high) / 2
		p, err := measure(mid)
		if err != nil {
			return nil, 0, err
		}
		if p.Throughput > fastest {
			best, fastest = mid, p.Throughput
		}
		if p.Limit == Loading && !rises {
			high = mid
		} else {
			low = mid
		}
		from, to := max(low, 0), min(high, tenths)
		if high-low == 1 {
			from, to = best, best
		}
		steps = append(steps, Step{p, float64(from) / tenths, float64(to) / tenths})
	}
	return steps, best, nil
}
