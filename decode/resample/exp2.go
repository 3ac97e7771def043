package resample

import (
	"math"
	"sync/atomic"
)

// digits is the number of binary digits that log2 and exp2 compute.
const digits = 48

// roots[k] is 2 to the power of 2^-k: each is the square root of the one before. Square roots,
// products and quotients are the same on every processor; the logarithms and exponentials of
// mathematical libraries are not.
var roots = func() (r [digits + 1]float64) {
	r[0] = 2
	for k := range digits {
		r[k+1] = math.Sqrt(r[k])
	}
	return r
}()

// log2 of x, finite and above 0, digit by digit, with an error of about 1e-14.
func log2(x float64) float64 {
	m, e := math.Frexp(x)
	m *= 2
	fraction, digit := 0.0, 1.0
	for _, root := range roots[1:] {
		digit = float64(digit / 2)
		if m >= root {
			m /= root
			fraction += digit
		}
	}
	return float64(e-1) + fraction
}

// exp2 is 2 to the power of x, digit by digit, with a relative error of about 1e-14.
func exp2(x float64) float64 {
	e, m := math.Floor(x), 1.0
	// The digits, the first one in the highest bit. Just below a whole number, x-e is 1.
	fraction := min(uint64((x-e)*(1<<digits)), 1<<digits-1)
	for k := range digits {
		m *= factors[k][fraction>>(digits-1-k)&1] // no branch, which nobody could predict
	}
	return math.Ldexp(m, int(e))
}

// factors are, for each digit, what exp2 multiplies by if it is 0 and if it is 1.
var factors = func() (f [digits][2]float64) {
	for k := range f {
		f[k] = [2]float64{1, roots[k+1]}
	}
	return f
}()

// A span is the logarithm of one number, and its distance to the logarithm of another.
type span struct{ from, to, low, size float64 }

var lastSpan atomic.Pointer[span]

// spanOf computes a span, unless it is the same as last time: each sample asks for the same one.
func spanOf(from, to float64) *span {
	s := lastSpan.Load()
	if s == nil || s.from != from || s.to != to {
		low := log2(from)
		s = &span{from, to, low, log2(to) - low}
		lastSpan.Store(s)
	}
	return s
}
