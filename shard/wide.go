package shard

import "math/bits"

// mulDiv is floor(a·b/c), with a 128-bit product, and the remainder. The quotient must fit in
// 64 bits, which it always does here because a <= c or b <= c.
func mulDiv(a, b, c uint64) (quotient, remainder uint64) {
	high, low := bits.Mul64(a, b)
	return bits.Div64(high, low, c)
}

// ceilDiv is ceil(a/b) for a >= 0, b > 0.
func ceilDiv(a, b int64) int64 {
	q := a / b
	if a%b != 0 {
		q++
	}
	return q
}
