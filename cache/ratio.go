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
	return CostsOf(samples, cost).Share(Room(Constant, limit, samples), read, inFlight)
}

// Costs are what the samples of a dataset take of a place that has room for some of them.
type Costs struct {
	samples  float64
	mean     float64
	most     float64 // the mean of the costlier kind
	variance float64 // that is left to chance: between samples of one kind
}

// Needs is how much room a share of the samples that an epoch reads takes, whichever they are, with some
// more for those in flight: see Ratio.
func (c Costs) Needs(share, read float64, inFlight int) float64 {
	kept := share * read * c.samples
	spread := spreads * math.Sqrt(kept*(1-share)*c.variance)
	extra := min(float64(inFlight), read*c.samples-kept)
	return kept*c.mean + spread + extra*c.most
}

// Share is the largest share that a room is enough for.
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

// CostsOf are the costs of samples, of which those below 0 take nothing. apart says that a sample belongs to a separate
// kind, of which a plan keeps the same share as of the others.
func CostsOf(samples int64, of func(id int64) (cost int64, apart bool)) Costs {
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
	return Costs{
		float64(samples), (kinds[0].n*kinds[0].mean + kinds[1].n*kinds[1].mean) / n,
		max(kinds[0].mean, kinds[1].mean), (kinds[0].squares + kinds[1].squares) / n,
	}
}
