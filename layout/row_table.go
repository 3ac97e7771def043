package layout

import (
	"math"
	"math/big"
)

// elements returns the element of every value of one channel.
func elements(t DType, mean, std float64) (bits [256]uint32) {
	if t == Uint8 {
		for v := range bits {
			bits[v] = uint32(v)
		}
		return bits
	}
	m, s := new(big.Rat).SetFloat64(mean), new(big.Rat).SetFloat64(std)
	for v := range bits {
		x := new(big.Rat).SetInt64(int64(v))
		f, _ := x.Sub(x, m).Quo(x, s).Float32() // exact up to here, rounded to nearest even here
		switch bits[v] = math.Float32bits(f); t {
		case Float16:
			bits[v] = uint32(half(bits[v]))
		case BFloat16:
			bits[v] = uint32(brain(bits[v]))
		}
	}
	return bits
}

// half rounds the bits of a float32, not NaN, to those of the nearest float16, ties to even.
func half(f uint32) uint16 {
	const (
		bias     = 127 - 15
		drop     = 23 - 10       // bits of the significand that do not fit
		infinity = 0x7c00        // also the result of a carry out of the largest number
		smallest = (bias + 1)    // exponent field of the smallest normal float16
		tiny     = smallest - 11 // half of the smallest subnormal is above 2^(tiny-127)
	)
	sign := uint16(f >> 16 & 0x8000)
	exponent := int(f >> 23 & 0xff)
	switch {
	case exponent >= bias+31:
		return sign | infinity
	case exponent < tiny:
		return sign
	case exponent < smallest:
		// The significand with its leading one, as a multiple of the subnormals' step. A carry
		// into the smallest normal number is correct too.
		return sign | uint16(shiftEven(f&0x7fffff|0x800000, drop+smallest-exponent))
	}
	// The fields are adjacent, so that a carry moves into the exponent, and from the largest
	// number to infinity.
	return sign | uint16(shiftEven(f&0x7fffffff-bias<<23, drop))
}

// brain rounds the bits of a float32, not NaN, to those of the nearest bfloat16, ties to even:
// its upper half, with a carry through all fields.
func brain(f uint32) uint16 {
	return uint16(f>>16&0x8000) | uint16(shiftEven(f&0x7fffffff, 16))
}

// shiftEven returns v/2^n rounded to the nearest integer, ties to even; 0 < n < 32.
func shiftEven(v uint32, n int) uint32 {
	return uint32((uint64(v) + 1<<(n-1) - 1 + uint64(v>>n&1)) >> n)
}
