package integration

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/big"
	"math/bits"
	"slices"
	"strconv"
	"sync"

	"github.com/batchfs/batchfs/layout"
)

// This file is the reference for pixels, crops, flips and elements. It is written from the
// contract and the papers it cites, shares no code with batchfs, and ignores speed. Loops
// over pixels have nothing to race with and are exempt from the race detector (go:norace),
// which would make them ten times slower.

// A look is everything pixels depend on besides the order of samples.
type look struct {
	settings         // height and width are --size
	mode      string // "": none
	dtype     layout.DType
	flip      float64
	mean, std []float64 // in 0..255; nil: none
	pad       int       // --pad-multiple
}

// flags returns the look as flags, followed by more flags.
func (l look) flags(more ...string) []string {
	flags := l.settings.flags("--dtype", l.dtype.String(), "--flip", decimal(l.flip))
	if l.mode != "" {
		flags = append(flags, "--resize", l.mode)
	}
	if l.mode == "center-crop" {
		flags = append(flags, "--resize-to", strconv.Itoa(l.resizeTo()))
	}
	if l.mean != nil {
		flags = append(flags, "--mean", commas(l.mean), "--std", commas(l.std))
	}
	if l.pad > 0 {
		flags = append(flags, "--pad-multiple", strconv.Itoa(l.pad))
	}
	return append(flags, more...)
}

// resizeTo is the short side before a centre crop.
func (l look) resizeTo() int { return max(l.height, l.width) + 5 }

func decimal(v float64) string { return strconv.FormatFloat(v, 'g', -1, 64) }

func commas(values []float64) string {
	var text []byte
	for _, v := range values {
		text = append(append(text, decimal(v)...), ',')
	}
	return string(text[:len(text)-1])
}

func (l look) channels() int {
	if l.gray {
		return 1
	}
	return 3
}

// String is the look's name in test names.
func (l look) String() string {
	colour := "rgb"
	if l.gray {
		colour = "gray"
	}
	mode := l.mode
	if mode == "" {
		mode = "none"
	}
	return fmt.Sprintf("%s/%s/%s/%s/flip=%g", mode, l.dtype, layoutName(l.settings), colour, l.flip)
}

// An appearance is how a sample must look: its crop, its size, and whether it is mirrored.
type appearance struct {
	crop [4]float64 // y, x, height, width of the upright picture
	h, w int        // valid pixels
	flip bool
	// The filter's axes: output i has its center at start + (i+0.5)*step, and depends on
	// the pixels from lo up to hi.
	y, x axis
}

type axis struct {
	start, step float64
	lo, hi, n   int
}

// appearance of a picture of h x w upright pixels.
func (l look) appearance(epoch int, id int64, h, w int) appearance {
	a := appearance{crop: [4]float64{0, 0, float64(h), float64(w)}, h: l.height, w: l.width}
	r := randomness{l.seed, epoch, id}
	a.flip = float64(uint32(r.words(0)[0])) < l.flip*(1<<32)
	fit := func(lo, hi, n int) axis { return axis{float64(lo), float64(hi-lo) / float64(n), lo, hi, n} }
	switch l.mode {
	case "", "none":
		a.h, a.w = h, w
		a.y, a.x = fit(0, h, h), fit(0, w, w)
	case "stretch":
		a.y, a.x = fit(0, h, l.height), fit(0, w, l.width)
	case "not-larger":
		factor := min(float64(l.height)/float64(h), float64(l.width)/float64(w))
		a.h, a.w = nearest(float64(h)*factor), nearest(float64(w)*factor)
		a.y, a.x = fit(0, h, a.h), fit(0, w, a.w)
	case "not-smaller":
		factor := max(float64(l.height)/float64(h), float64(l.width)/float64(w))
		a.y, a.crop[0], a.crop[2] = middle(fit(0, h, nearest(float64(h)*factor)), h, l.height)
		a.x, a.crop[1], a.crop[3] = middle(fit(0, w, nearest(float64(w)*factor)), w, l.width)
	case "center-crop":
		a.y, a.crop[0], a.crop[2] = middleToEven(fit(0, h, l.resizeTo()*h/min(h, w)), h, l.height)
		a.x, a.crop[1], a.crop[3] = middleToEven(fit(0, w, l.resizeTo()*w/min(h, w)), w, l.width)
	case "random-resized-crop":
		top, left, height, width := r.window(h, w)
		a.crop = [4]float64{float64(top), float64(left), float64(height), float64(width)}
		a.y, a.x = fit(top, top+height, l.height), fit(left, left+width, l.width)
	}
	return a
}

// nearest rounds to the nearest whole number, halves up, but to at least 1. It allows for
// floating-point error, since factors of whole numbers may just miss a half.
func nearest(v float64) int { return max(int(math.Floor(v+0.5+1e-9)), 1) }

// middle returns the n middle outputs of an axis, and the range of size pixels they show.
func middle(a axis, size, n int) (cut axis, from, shown float64) {
	return outputs(a, size, (a.n-n+1)/2, n) // an odd pixel goes to the left
}

// middleToEven is middle with halves rounded to even, as by Python.
func middleToEven(a axis, size, n int) (cut axis, from, shown float64) {
	return outputs(a, size, int(math.RoundToEven(float64(a.n-n)/2)), n)
}

// outputs returns the n outputs of an axis from first on, and the range of size pixels they show.
func outputs(a axis, size, first, n int) (cut axis, from, shown float64) {
	perOutput := float64(size) / float64(a.n)
	a.start, a.n = float64(first)*perOutput, n
	return a, float64(first) * perOutput, float64(n) * perOutput
}

// values are the pixels as real numbers, not yet mirrored.
//
//go:norace
func (a appearance) values(p plane) []float64 {
	rows := a.y.weights()
	columns := a.x.weights()
	out := make([]float64, 0, a.h*a.w*p.c)
	line := make([]float64, p.w*p.c)
	for _, row := range rows {
		clear(line)
		for k, weight := range row.weights {
			for i, v := range p.values[(row.first+k)*p.w*p.c:][:p.w*p.c] {
				line[i] += weight * float64(v)
			}
		}
		for _, column := range columns {
			for c := range p.c {
				sum := 0.0
				for k, weight := range column.weights {
					sum += weight * line[(column.first+k)*p.c+c]
				}
				out = append(out, sum)
			}
		}
	}
	return out
}

// An output's weights are those of the pixels from first on.
type weighted struct {
	first   int
	weights []float64
}

// weights of a triangle as wide as two steps, but at least two pixels.
//
//go:norace
func (a axis) weights() (all []weighted) {
	radius := math.Max(a.step, 1)
	for i := range a.n {
		centre := a.start + (float64(i)+0.5)*a.step
		o, sum := weighted{first: -1}, 0.0
		for j := max(a.lo, int(centre-radius)-1); j < min(a.hi, int(centre+radius)+2); j++ {
			w := 1 - math.Abs(float64(j)+0.5-centre)/radius
			if w <= 0 {
				continue
			}
			if o.first < 0 {
				o.first = j
			}
			o.weights, sum = append(o.weights, w), sum+w
		}
		for k := range o.weights {
			o.weights[k] /= sum
		}
		all = append(all, o)
	}
	return all
}

// The random choices for a sample, as defined in package resample.
type randomness struct {
	seed   uint64
	epoch  int
	sample int64
}

// words returns block n of the sample's random numbers: Philox4x32-10, as two 64-bit
// numbers.
func (r randomness) words(n uint32) [2]uint64 {
	c := [4]uint32{n, uint32(r.epoch), uint32(r.sample), uint32(r.sample >> 32)}
	k0, k1 := uint32(r.seed), uint32(r.seed>>32)
	for range 10 {
		p0, p1 := uint64(0xD2511F53)*uint64(c[0]), uint64(0xCD9E8D57)*uint64(c[2])
		c = [4]uint32{uint32(p1>>32) ^ c[1] ^ k0, uint32(p1), uint32(p0>>32) ^ c[3] ^ k1, uint32(p0)}
		k0, k1 = k0+0x9E3779B9, k1+0xBB67AE85
	}
	return [2]uint64{uint64(c[1])<<32 + uint64(c[0]), uint64(c[3])<<32 + uint64(c[2])}
}

// window is torchvision's RandomResizedCrop.get_params, with the usual area 0.08 to 1 and
// ratio 3/4 to 4/3.
func (r randomness) window(h, w int) (top, left, height, width int) {
	uniform := func(z uint64) float64 { return float64(z>>11) / (1 << 53) }
	for try := range uint32(10) {
		z := r.words(1 + try)
		area := float64(h*w) * (0.08 + uniform(z[0])*(1-0.08))
		ratio := math.Exp(math.Log(3./4) + uniform(z[1])*(math.Log(4./3)-math.Log(3./4)))
		width, height := int(math.Round(math.Sqrt(area*ratio))), int(math.Round(math.Sqrt(area/ratio)))
		if width > 0 && height > 0 && width <= w && height <= h {
			z = r.words(11)
			below := func(n int, z uint64) int { high, _ := bits.Mul64(z, uint64(n)); return int(high) }
			return below(h-height+1, z[0]), below(w-width+1, z[1]), height, width
		}
	}
	height, width = h, w
	switch in := float64(w) / float64(h); {
	case in < 3./4:
		height = min(max(int(math.Round(float64(w)/(3./4))), 1), h)
	case in > 4./3:
		width = min(max(int(math.Round(float64(h)*(4./3))), 1), w)
	}
	return (h - height) / 2, (w - width) / 2, height, width
}

// elements returns the bytes of the element for each 8-bit value of channel c.
func (l look) elements(c int) (all [256][]byte) {
	mean, std := 0.0, 1.0
	if l.mean != nil {
		mean, std = l.mean[c], l.std[c]
	}
	for v := range all {
		if l.dtype == layout.Uint8 {
			all[v] = []byte{byte(v)}
			continue
		}
		x := quotient(float64(v), mean, std)
		switch l.dtype {
		case layout.Float32:
			all[v] = binary.LittleEndian.AppendUint32(nil, math.Float32bits(x))
		case layout.Float16:
			all[v] = binary.LittleEndian.AppendUint16(nil, closest(halves(), x))
		case layout.BFloat16:
			all[v] = binary.LittleEndian.AppendUint16(nil, closest(brains(), x))
		}
	}
	return all
}

// quotient is (v-mean)/std rounded to the nearest float32, computed with enough digits that
// intermediate rounding does not matter.
func quotient(v, mean, std float64) float32 {
	const digits = 500
	x := new(big.Float).SetPrec(digits).SetFloat64(v)
	x.Sub(x, new(big.Float).SetFloat64(mean))
	x.Quo(x, new(big.Float).SetFloat64(std))
	f, _ := x.Float32()
	return f
}

// A short is a 16-bit number: its value and its bits.
type short struct {
	value float64
	bits  uint16
}

// halves are all float16 numbers in order, plus the one that would follow if infinity did
// not take its place.
var halves = sync.OnceValue(func() []short {
	return shorts(func(b uint16) float64 {
		significand, exponent := float64(b&0x3ff)/1024, int(b>>10&31)
		switch exponent {
		case 0:
			return math.Ldexp(significand, -14)
		case 31:
			if significand != 0 {
				return math.NaN()
			}
		}
		return math.Ldexp(1+significand, exponent-15)
	})
})

// brains are the same for bfloat16: float32 numbers whose lower bits are zero.
var brains = sync.OnceValue(func() []short {
	return shorts(func(b uint16) float64 {
		if b == 0x7f80 {
			return math.Ldexp(1, 128)
		}
		return float64(math.Float32frombits(uint32(b) << 16))
	})
})

// shorts lists the numbers of a format by value. positive decodes bits without a sign.
func shorts(positive func(bits uint16) float64) (all []short) {
	for b := range uint16(0x8000) {
		if v := positive(b); !math.IsNaN(v) {
			all = append(all, short{v, b})
			if b != 0 {
				all = append(all, short{-v, b | 0x8000})
			}
		}
	}
	slices.SortFunc(all, func(a, b short) int {
		if a.value < b.value {
			return -1
		}
		return 1
	})
	return all
}

// closest returns the closest number of a format, and of two equally close ones the even
// one. No value here is so small that it would become a negative zero.
func closest(all []short, x float32) uint16 {
	v := max(min(float64(x), all[len(all)-1].value), all[0].value)
	i, found := slices.BinarySearchFunc(all, v, func(s short, v float64) int {
		switch {
		case s.value < v:
			return -1
		case s.value > v:
			return 1
		}
		return 0
	})
	if found {
		return all[i].bits
	}
	below, above := all[i-1], all[i]
	switch d, u := v-below.value, above.value-v; {
	case d < u || d == u && below.bits&1 == 0:
		return below.bits
	}
	return above.bits
}
