package shard

import "math"

// maxDenominator bounds fractions for ratios. Any ratio is within about 2^-60 of such a
// fraction.
const maxDenominator = 1 << 30

// fraction returns a simple p/q that equals r to the last bit, for 0 <= r <= 1: 0.3 becomes
// 3/10, which makes r·250 the whole number 75, although no binary fraction is 0.3. If that
// would need a denominator above most, it returns a close fraction.
func fraction(r float64, most uint64) (p, q uint64) {
	if r == 1 {
		return 1, 1
	}
	mantissa, exponent := math.Frexp(r)
	shift := min(53-exponent, 63) // bits below 2^-63 are lost
	num, den := uint64(math.Ldexp(mantissa, exponent+shift)), uint64(1)<<shift
	// The convergents of the continued fraction of num/den.
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
