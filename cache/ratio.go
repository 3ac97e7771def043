package cache

import "math"

// spreads is how many standard deviations of a plan's random choice there must be room for.
const spreads = 3

// Ratio is the share of the samples read in an epoch that a plan may keep in a cache of the given
// limit, whichever samples it chooses: a plan counts samples, and the chosen ones may be large.
// read is the share of the dataset's samples that an epoch reads, 0 to 1. sample returns a sample's
// size in bytes, below 0 if unknown, and its kind, from 0: the plan keeps the same share of each
// kind, such as raw samples. inFlight is how many samples may arrive before the samples they
// replace have left; they count as samples of the costliest kind.
func Ratio(limit, samples int64, read float64, sample func(id int64) (size int64, kind int), inFlight int) float64 {
	cost := func(id int64) (int64, int) {
		size, kind := sample(id)
		if size >= 0 {
			size = Cost(size)
		}
		return size, kind
	}
	return CostsOf(samples, cost).Share(Room(Constant, limit, samples), read, inFlight)
}

// Costs sums up what the samples of a dataset cost in a place that has room for some of them.
type Costs struct {
	samples  float64
	mean     float64
	most     float64 // the mean of the costliest kind
	variance float64 // of the random choice, between samples of one kind
}

// Needs is the room for a share of the samples that an epoch reads, whichever they are, including
// the samples in flight; see Ratio.
func (c Costs) Needs(share, read float64, inFlight int) float64 {
	kept := share * read * c.samples
	spread := spreads * math.Sqrt(kept*(1-share)*c.variance)
	extra := min(float64(inFlight), read*c.samples-kept)
	return kept*c.mean + spread + extra*c.most
}

// Share is the largest share that fits into a room.
func (c Costs) Share(room int64, read float64, inFlight int) float64 {
	fits := func(r float64) bool { return c.Needs(r, read, inFlight) <= float64(room) }
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

// CostsOf sums up the costs of samples. A cost below 0 is unknown and counts as nothing. kind is as
// for Ratio.
func CostsOf(samples int64, of func(id int64) (cost int64, kind int)) Costs {
	var kinds []struct{ n, mean, squares float64 }
	for id := range samples {
		cost, kind := of(id)
		if cost < 0 {
			continue
		}
		for len(kinds) <= kind {
			kinds = append(kinds, struct{ n, mean, squares float64 }{})
		}
		k := &kinds[kind]
		k.n++
		d := float64(cost) - k.mean
		k.mean += d / k.n
		k.squares += d * (float64(cost) - k.mean)
	}
	c, n := Costs{samples: float64(samples)}, 0.0
	for _, k := range kinds {
		n += k.n
		c.mean += k.n * k.mean
		c.most = max(c.most, k.mean)
		c.variance += k.squares
	}
	n = max(n, 1)
	c.mean, c.variance = c.mean/n, c.variance/n
	return c
}
