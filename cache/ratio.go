package cache

import "math"

// spreads is how many standard deviations of a plan's random choice a cache has room for.
const spreads = 3

// Ratio is the share of the samples read in an epoch that a plan may keep in a cache of the
// given limit, whichever samples it chooses: a plan counts samples, and the chosen ones may be
// large. read is the share of the dataset's samples that an epoch reads, 0 to 1. sample returns
// a sample's size in bytes, below 0 if unknown, and whether it belongs to a separate kind, such
// as raw samples, of which the plan keeps the same share as of the others. inFlight is how many
// samples may arrive before the samples they replace have left; they count as samples of the
// costlier kind, if there are two.
func Ratio(limit, samples int64, read float64, sample func(id int64) (size int64, apart bool), inFlight int) float64 {
	cost := func(id int64) (int64, bool) {
		size, apart := sample(id)
		if size >= 0 {
			size = Cost(size)
		}
		return size, apart
	}
	return Share(Room(Constant, limit, samples), samples, read, cost, inFlight)
}

// Share is Ratio for any place that has room, where each sample has a cost.
func Share(room, samples int64, read float64, cost func(id int64) (cost int64, apart bool), inFlight int) float64 {
	mean, most, variance := costs(samples, cost)
	fits := func(r float64) bool {
		kept := r * read * float64(samples)
		spread := spreads * math.Sqrt(kept*(1-r)*variance)
		extra := min(float64(inFlight), read*float64(samples)-kept)
		return kept*mean+spread+extra*most <= float64(room)
	}
	if fits(1) {
		return 1
	}
	low, high := 0.0, 1.0
	for range 50 {
		if r := (low + high) / 2; fits(r) {
			low = r
		} else {
			high = r
		}
	}
	return low
}

// costs returns the mean cost of all samples, the mean of the costlier kind, and the variance
// left to chance: that between samples of one kind.
func costs(samples int64, of func(id int64) (cost int64, apart bool)) (mean, most, variance float64) {
	var kinds [2]struct{ n, mean, squares float64 }
	for id := range samples {
		cost, apart := of(id)
		if cost < 0 {
			continue
		}
		k := &kinds[0]
		if apart {
			k = &kinds[1]
		}
		k.n++
		d := float64(cost) - k.mean
		k.mean += d / k.n
		k.squares += d * (float64(cost) - k.mean)
	}
	n := max(kinds[0].n+kinds[1].n, 1)
	mean = (kinds[0].n*kinds[0].mean + kinds[1].n*kinds[1].mean) / n
	return mean, max(kinds[0].mean, kinds[1].mean), (kinds[0].squares + kinds[1].squares) / n
}
