package resample

import "math/bits"

// A step of more than narrow pixels would need weights of more than 16 bits, and more memory for
// them than the pixels take. Few images are reduced so much: for them weights are computed on
// the fly, in 64 bits, and there is one kernel.

const (
	wideDown   = 40 // weights of rows add up to 2^wideDown
	wideLine   = 20 // a line holds pixels times 2^wideLine
	wideAcross = 30
)

// weights yields an output's weights one after the other, rounded like those of fixed.
type weights struct {
	*filter
	drop         uint  // bits of the heights that are dropped, so that their sum fits
	offset       int64 // from the output's centre to that of the next pixel
	unit         float64
	done, before int64
}

func (f *filter) weights(lo, hi int, centre int64, shift uint) weights {
	w := weights{filter: f, offset: f.offset(lo, centre), drop: uint(max(bits.Len64(uint64(f.support))-34, 0))}
	sum := int64(0)
	for j := lo; j < hi; j++ {
		d := f.offset(j, centre)
		sum += (f.support - max(d, -d)) >> w.drop
	}
	w.unit = float64(int64(1)<<shift) / float64(sum)
	return w
}

func (w *weights) next() int64 {
	w.done += (w.support - max(w.offset, -w.offset)) >> w.drop
	w.offset += pixel
	before := w.before
	w.before = int64(float64(float64(w.done)*w.unit) + 0.5)
	return w.before - before
}

func (j *job) resizeWide(sink Sink, t Transform, from []byte, stride int, scratch []byte) {
	line := view[int64](scratch, j.sums, j.columns*j.channels)
	out := scratch[j.out:][:j.width*j.channels]
	down, across := t.Y.filter(), t.X.filter()
	for y := range j.height {
		lo, hi, centre := down.taps(y)
		w := down.weights(lo, hi, centre, wideDown)
		wideRows(line, from[(lo-j.top)*stride:], stride, hi-lo, &w)
		for x := range j.width {
			lo, hi, centre := across.taps(x)
			w := across.weights(lo, hi, centre, wideAcross)
			widePixel(out[x*j.channels:][:j.channels], line[(lo-j.left)*j.channels:], hi-lo, &w)
		}
		sink.PutRow(y, out)
	}
}

func wideRows(line []int64, from []byte, stride, taps int, w *weights) {
	const shift = wideDown - wideLine
	for i := range line {
		line[i] = 1 << (shift - 1)
	}
	for t := range taps {
		weight := w.next()
		for i, v := range from[t*stride:][:len(line)] {
			line[i] += weight * int64(v)
		}
	}
	for i := range line {
		line[i] >>= shift
	}
}

func widePixel(to []byte, line []int64, taps int, w *weights) {
	const shift = wideAcross + wideLine
	sums := [3]int64{1 << (shift - 1), 1 << (shift - 1), 1 << (shift - 1)}
	n := len(to)
	for t := range taps {
		weight := w.next()
		for c, v := range line[t*n:][:n] {
			sums[c] += weight * v
		}
	}
	for c := range to {
		to[c] = byte(sums[c] >> shift)
	}
}
