package resample

import "math"

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
	e := math.Floor(x)
	fraction, m := x-e, 1.0
	for _, root := range roots[1:] {
		fraction *= 2
		if fraction >= 1 {
			fraction--
			m *= root
		}
	}
	return math.Ldexp(m, int(e))
}
