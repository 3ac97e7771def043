package shard

import "math"

// maxDenominator is for ratios. Any is within 2^-60 or so of such a fraction.
const maxDenominator = 1 << 30

// fraction is a simple p/q that is r to the last bit, for 0 <= r <= 1: 0.3 becomes 3/10, and
// r·250 the whole number 75, though no binary fraction is 0.3. Where that would take
// a denominator of more than most, it is one that is near.
func fraction(r float64, most uint64) (p, q uint64) {
	if r == 1 {
		return 1, 1
	}
	mantissa, exponent := math.Frexp(r)
	shift := min(53-exponent, 63) // what lies below 2^-63 is lost
	num, den := uint64(math.Ldexp(mantissa, exponent+shift)), uint64(1)<<shift
	// The convergents of the continued fraction num/den.
	p, q = 0, 1
	p0, q0 := uint64(1), uint64(0)
	for num > 0 && float64(p)/float64(q) != r {
		a := den / num
		if a > (most-q0)/q {
			break
		}
		p0, q0, p, q = p, q, a*p+p0, a*q+q0
		num, den = den%num, num
	}
	return p, q
}
