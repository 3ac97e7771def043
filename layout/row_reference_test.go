package layout

import (
	"encoding/binary"
	"math"
	"math/big"
	"sync"
)

// The reference shares nothing with the package: numbers are big.Floats with enough bits to lose
// nothing, and rounding is done by counting steps of the format.

const referenceBits = 2500

// referenceFormat is a binary floating-point format.
type referenceFormat struct{ exponent, fraction int } // bits of each

var referenceFormats = map[DType]referenceFormat{Float16: {5, 10}, BFloat16: {8, 7}, Float32: {8, 23}}

// encode rounds x to the nearest number of the format, ties to even.
func (f referenceFormat) encode(x *big.Float) uint32 {
	var sign uint32
	if x.Signbit() {
		sign = 1 << (f.exponent + f.fraction)
	}
	infinity := uint32(1<<f.exponent-1) << f.fraction
	bias := 1<<(f.exponent-1) - 1
	a := new(big.Float).Abs(x)
	switch {
	case a.Sign() == 0:
		return sign
	case a.IsInf() || a.MantExp(nil)-1 > bias:
		return sign | infinity
	}
	e := max(a.MantExp(nil)-1, 1-bias) // 2^e <= a, or subnormal
	a.SetMantExp(a, f.fraction-e)      // in units of the format's step there
	whole, _ := a.Int(nil)
	rest := new(big.Float).Sub(a, new(big.Float).SetInt(whole))
	steps := uint32(whole.Uint64())
	if c := rest.Cmp(big.NewFloat(0.5)); c > 0 || c == 0 && steps%2 == 1 {
		steps++
	}
	if steps>>f.fraction == 2 {
		steps, e = steps/2, e+1
	}
	switch {
	case e > bias:
		return sign | infinity
	case steps>>f.fraction == 0:
		return sign | steps
	}
	return sign | uint32(e+bias)<<f.fraction | steps&(1<<f.fraction-1)
}

// referenceElement is the element as documented.
func referenceElement(t DType, v uint8, mean, std float64) uint32 {
	if t == Uint8 {
		return uint32(v)
	}
	exact := func() *big.Float { return new(big.Float).SetPrec(referenceBits) }
	x := exact().Sub(exact().SetInt64(int64(v)), exact().SetFloat64(mean))
	x.Quo(x, exact().SetFloat64(std))
	single := referenceFormats[Float32].encode(x)
	if t == Float32 {
		return single
	}
	return referenceFormats[t].encode(exact().SetFloat64(float64(math.Float32frombits(single))))
}

// A sampleCase is one sample for a Writer.
type sampleCase struct {
	spec          Spec
	norm          Normalization
	height, width int
	flip          bool
	fill          uint8
	pixels        []byte // height x width, packed
}

// referenceTable returns every element of every channel.
func (c sampleCase) referenceTable() (table [maxChannels][256]uint32) {
	full := c.norm.complete(c.spec.C)
	for k := range c.spec.C {
		table[k] = *referenceElements(c.spec.DType, full.Mean[k], full.Std[k])
	}
	return table
}

type referenceKey struct {
	d         DType
	mean, std float64
}

var referenceMemory sync.Map // caches tables, which take a while to compute

// referenceElements returns every element of one channel.
func referenceElements(d DType, mean, std float64) *[256]uint32 {
	key := referenceKey{d, mean, std}
	if known, ok := referenceMemory.Load(key); ok {
		return known.(*[256]uint32)
	}
	table := new([256]uint32)
	for v := range table {
		table[v] = referenceElement(d, uint8(v), mean, std)
	}
	referenceMemory.Store(key, table)
	return table
}

// slot computes the sample's slot, element by element.
func (c sampleCase) slot(table *[maxChannels][256]uint32) []byte {
	s, size := c.spec, c.spec.DType.Size()
	out := make([]byte, s.SampleBytes())
	for y := range s.H {
		for x := range s.W {
			for k := range s.C {
				v := c.fill
				if y < c.height && x < c.width {
					from := x
					if c.flip {
						from = c.width - 1 - x
					}
					v = c.pixels[(y*c.width+from)*s.C+k]
				}
				at := (y*s.W+x)*s.C + k
				if s.Order == NCHW {
					at = (k*s.H+y)*s.W + x
				}
				var element [4]byte
				binary.LittleEndian.PutUint32(element[:], table[k][v])
				copy(out[at*size:(at+1)*size], element[:])
			}
		}
	}
	return out
}
