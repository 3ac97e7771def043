package resample

import (
	"math/bits"
	"unsafe"
)

// narrow is the longest step whose weights are computed beforehand, in 16 bits.
const narrow = 128

// fixed is the form of one axis' weights: taps integers for every output, some of them 0, which
// add up to 2^shift.
type fixed struct {
	taps  int // even: kernels process them in pairs
	shift int
}

// fixed returns the axis' form; Step must be at most narrow. A weight is at most about 2/Step,
// or 1, so it fits 15 bits; shift is at most most.
func (a Axis) fixed(size, most int) fixed {
	support := max(2*toGrid(a.Step), pixel)
	taps := min(int((2*support+pixel-1)>>pixelBits), size)
	doublings := bits.Len64(uint64(a.Step)) - 1
	return fixed{taps: (taps + 1) &^ 1, shift: min(14+max(doublings-1, 0), most)}
}

// fill computes the weights of every output, and at: the index of its first tap among the size
// source pixels that start at first, times scale. Weights are the triangle's heights over their
// sum. Partial sums are rounded and their differences used, so that the weights add up to
// exactly 2^shift.
func (f fixed) fill(a Axis, first, size, scale int, at []int32, weights []int16) {
	g := a.filter()
	last := first + max(size-f.taps, 0)
	within := min(f.taps, size) // if size is odd, the last tap may have no pixel
	for i := range at {
		lo, _, centre := g.taps(i)
		from := min(lo, last)
		at[i] = int32((from - first) * scale)
		w := weights[i*f.taps:][:f.taps]
		w[len(w)-1] = 0
		normalise(w[:within], g.support, g.offset(from, centre), f.shift)
	}
}

// normalise computes the weights of one output. offset is the distance from its centre to that
// of its first tap's pixel; the others follow one pixel apart.
func normalise(to []int16, support, offset int64, shift int) {
	sum, d := int64(0), offset
	for range to {
		sum += max(support-max(d, -d), 0)
		d += pixel
	}
	unit, _ := bits.Div64(1<<shift, 0, uint64(sum))
	done, before := int64(0), int64(0)
	for k := range to {
		done += max(support-max(offset, -offset), 0)
		offset += pixel
		high, low := bits.Mul64(uint64(done), unit)
		now := int64(high + low>>63)
		to[k] = int16(now - before)
		before = now
	}
}

// view returns n values of type T in scratch, starting at an offset aligned for them.
func view[T int16 | int32 | int64](scratch []byte, from, n int) []T {
	var zero T
	b := scratch[from : from+n*int(unsafe.Sizeof(zero))]
	return unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(b))), n)
}
