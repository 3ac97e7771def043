package gen

import "math/bits"

// rng is the splitmix64 generator: its state is a single number, so that every image can have
// its own, computed from the seed and the image's index.
type rng uint64

// imageRNG returns the generator for one image.
func imageRNG(seed uint64, index int) rng {
	r := rng(seed)
	r = rng(r.next() + uint64(index))
	return rng(r.next())
}

func (r *rng) next() uint64 {
	*r += 0x9e3779b97f4a7c15
	z := uint64(*r)
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// below returns a number in [0, n), n > 0.
func (r *rng) below(n int) int {
	high, _ := bits.Mul64(r.next(), uint64(n))
	return int(high)
}

// between returns a number in [low, high], or low if the range is empty.
func (r *rng) between(low, high int) int {
	if high <= low {
		return low
	}
	return low + r.below(high-low+1)
}

// chance is true in percent out of 100 cases.
func (r *rng) chance(percent int) bool { return r.below(100) < percent }
