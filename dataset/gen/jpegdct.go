package gen

// The forward transform is that of Arai, Agui and Nakajima: five multiplications per row, with
// the scale factors folded into the quantisation. It uses only integers, because the same bytes
// must come out on every processor, and some fuse floating-point operations.

const (
	dctPrescale = 3 // samples are shifted left by this, for precision
	dctFraction = 12
)

func dctMul(a, c int32) int32 { return (a*c + 1<<(dctFraction-1)) >> dctFraction }

const (
	dct0382 = 1567 // 0.382683433 << dctFraction, and so on
	dct0541 = 2217
	dct0707 = 2896
	dct1306 = 5352
)

// forwardDCT transforms the block in place, rows, then columns.
func forwardDCT(b *[64]int32) {
	for i := 0; i < 64; i += 8 {
		r := b[i : i+8 : i+8]
		r[0], r[1], r[2], r[3], r[4], r[5], r[6], r[7] = dct8(r[0], r[1], r[2], r[3], r[4], r[5], r[6], r[7])
	}
	for i := range 8 {
		b[i], b[i+8], b[i+16], b[i+24], b[i+32], b[i+40], b[i+48], b[i+56] =
			dct8(b[i], b[i+8], b[i+16], b[i+24], b[i+32], b[i+40], b[i+48], b[i+56])
	}
}

func dct8(a0, a1, a2, a3, a4, a5, a6, a7 int32) (_, _, _, _, _, _, _, _ int32) {
	s0, d0 := a0+a7, a0-a7
	s1, d1 := a1+a6, a1-a6
	s2, d2 := a2+a5, a2-a5
	s3, d3 := a3+a4, a3-a4

	e0, e3 := s0+s3, s0-s3
	e1, e2 := s1+s2, s1-s2
	z := dctMul(e2+e3, dct0707)

	o0, o1, o2 := d3+d2, d2+d1, d1+d0
	z5 := dctMul(o0-o2, dct0382)
	z2 := dctMul(o0, dct0541) + z5
	z4 := dctMul(o2, dct1306) + z5
	z3 := dctMul(o1, dct0707)
	p, q := d0+z3, d0-z3
	return e0 + e1, p + z4, e3 + z, q - z2, e0 - e1, q + z2, e3 - z, p - z4
}

// aanScale holds the factors by which row and column k of forwardDCT's result are too large, <<
// 14.
var aanScale = [8]int64{16384, 22725, 21407, 19266, 16384, 12873, 8867, 4520}

// zigzag[k] is the row-by-row position of the k-th coefficient in a file.
var zigzag = [64]uint8{
	0, 1, 8, 16, 9, 2, 3, 10, 17, 24, 32, 25, 18, 11, 4, 5,
	12, 19, 26, 33, 40, 48, 41, 34, 27, 20, 13, 6, 7, 14, 21, 28,
	35, 42, 49, 56, 57, 50, 43, 36, 29, 22, 15, 23, 30, 37, 44, 51,
	58, 59, 52, 45, 38, 31, 39, 46, 53, 60, 61, 54, 47, 55, 62, 63,
}

// lumaQuant and chromaQuant are the tables of the standard's annex K, row by row.
var lumaQuant = [64]uint16{
	16, 11, 10, 16, 24, 40, 51, 61,
	12, 12, 14, 19, 26, 58, 60, 55,
	14, 13, 16, 24, 40, 57, 69, 56,
	14, 17, 22, 29, 51, 87, 80, 62,
	18, 22, 37, 56, 68, 109, 103, 77,
	24, 35, 55, 64, 81, 104, 113, 92,
	49, 64, 78, 87, 103, 121, 120, 101,
	72, 92, 95, 98, 112, 100, 103, 99,
}

var chromaQuant = [64]uint16{
	17, 18, 24, 47, 99, 99, 99, 99,
	18, 21, 26, 66, 99, 99, 99, 99,
	24, 26, 56, 99, 99, 99, 99, 99,
	47, 66, 99, 99, 99, 99, 99, 99,
	99, 99, 99, 99, 99, 99, 99, 99,
	99, 99, 99, 99, 99, 99, 99, 99,
	99, 99, 99, 99, 99, 99, 99, 99,
	99, 99, 99, 99, 99, 99, 99, 99,
}

// scaleQuant scales a table to a quality with the formula that all encoders use.
func scaleQuant(table *[64]uint16, quality int) (scaled [64]uint16) {
	percent := 200 - 2*quality
	if quality < 50 {
		percent = 5000 / quality
	}
	for i, q := range table {
		scaled[i] = uint16(min(max((int(q)*percent+50)/100, 1), 255))
	}
	return scaled
}

// reciprocals returns 2^32 divided by quantize's divisors, in zigzag order.
func reciprocals(quant *[64]uint16) (recip [64]uint64) {
	for k, at := range zigzag {
		scale := aanScale[at>>3] * aanScale[at&7] >> 14 // << 14
		recip[k] = uint64(1<<(32+14-3-dctPrescale)) / (uint64(quant[at]) * uint64(scale))
	}
	return recip
}

// quantize divides, rounds and reorders a block. Bit k of the result says that coefficient k is
// not 0.
func quantize(dst *[64]int16, block *[64]int32, recip *[64]uint64) (nonzero uint64) {
	for k := range 64 {
		v := int64(block[zigzag[k]&63])
		sign := v >> 63
		q := int64((uint64(v^sign-sign)*recip[k] + 1<<31) >> 32)
		dst[k] = int16(q ^ sign - sign)
		nonzero |= uint64(-q) >> 63 << k // no branch: noise would mispredict it
	}
	return nonzero
}
