package profile

import (
	"github.com/batchfs/batchfs/internal/convert"
	"github.com/batchfs/batchfs/shard"
)

// tenths is the number of steps from one form alone to the next one alone.
const tenths = 10

// A path has the forms of a profile from the smallest files, which are decoded most slowly, to the
// largest, which are decoded fastest. Its mixes are numbered: mix k·tenths is form k alone, and
// mixes between two forms have tenths of each.
type path []shard.Cost

// candidates is the path of encoded images and, if possible, packed and raw ones, by their files'
// mean sizes. It leaves out packed images that are no smaller than raw ones, which are decoded
// faster.
func candidates(packs, raws bool, bytes [shard.NumCosts]float64) path {
	p := path{shard.Encoded}
	if packs && (!raws || bytes[shard.Packed] < bytes[shard.Raw]) {
		p = append(p, shard.Packed)
	}
	if raws {
		p = append(p, shard.Raw)
	}
	return p
}

// last is the number of the last mix.
func (p path) last() int { return tenths * (len(p) - 1) }

// mix is the mix at a place, which is the mix's number divided by tenths.
func (p path) mix(place float64) convert.Shares {
	var shares [shard.NumCosts]float64
	k := min(int(place), max(len(p)-2, 0))
	shares[p[k]] = 1 - (place - float64(k))
	if k+1 < len(p) {
		shares[p[k+1]] = place - float64(k)
	}
	return convert.Shares{Raw: shares[shard.Raw], Packed: shares[shard.Packed]}
}

// place is the place of a mix, even if it leaves out a form between two others.
func (p path) place(s convert.Shares) (place float64) {
	for k, f := range p {
		place += float64(k) * s.Of(f)
	}
	return place
}

// search finds the best of a path's mixes up to last. Measuring a mix shows whether loading or
// decoding is slower. If decoding limits it, mixes before it can only be worse; if loading limits
// it, mixes after it can only be worse. If rises says that loading, too, gets faster after a mix,
// mixes before it are never better.
//
// It measures at most 4 of 11 mixes, and 5 of 21.
func search(last int, rises func(mix int) bool, measure func(mix int) (Point, error)) (steps []Step, best int, err error) {
	// No mix up to low except low itself can be best, and none from high on except high
	// itself. Both are measured or out of range.
	low, high := -1, last+1
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
		if p.Limit == Loading && !rises(mid) {
			high = mid
		} else {
			low = mid
		}
		from, to := max(low, 0), min(high, last)
		if high-low == 1 {
			from, to = best, best
		}
		steps = append(steps, Step{p, from, to})
	}
	return steps, best, nil
}
