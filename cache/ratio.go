package cache

import "math"

// spreads is how many standard deviations of what a plan happens to choose a cache
// has room for.
const spreads = 3

// Ratio is the share of the samples read in an epoch that a plan may keep in a cache
// of the given limit, whichever they are: a plan counts samples, and those it chooses
// may be large ones. Of the dataset's samples an epoch reads the share read, 0 to 1.
// size is a sample's size in bytes, below 0 where it is not known. inFlight is how
// many samples may have come before those have left that they take the place of.
func Ratio(limit, samples int64, read float64, size func(id int64) int64, inFlight int) float64 {
	mean, variance := costs(samples, size)
	room := float64(Room(Constant, limit, samples))
	fits := func(r float64) bool {
		kept := r * read * float64(samples)
		spread := spreads * math.Sqrt(kept*(1-r)*variance)
		extra := min(float64(inFlight), read*float64(samples)-kept)
		return kept*mean+spread+extra*mean <= room
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

// costs returns mean and variance of what samples cost.
func costs(samples int64, size func(id int64) int64) (mean, variance float64) {
	n, squares := 0.0, 0.0
	for id := range samples {
		s := size(id)
		if s < 0 {
			continue
		}
		n++
		d := float64(Cost(Constant, s)) - mean
		mean += d / n
		squares += d * (float64(Cost(Constant, s)) - mean)
	}
	return mean, squares / max(n, 1)
}
