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

// each calls add with every pixel that has a weight in output i and with that weight. The weights
// add up to 2^shift and are rounded like those of fixed.
func (f *filter) each(i int, shift uint, add func(j int, weight int64)) {
	lo, hi, centre := f.taps(i)
	drop := max(bits.Len64(uint64(f.support))-34, 0) // so that the sum of heights fits
	height := func(j int) int64 {
		d := f.offset(j, centre)
		return (f.support - max(d, -d)) >> drop
	}
	sum, done, before := int64(0), int64(0), int64(0)
	for j := lo; j < hi; j++ {
		sum += height(j)
	}
	unit := float64(int64(1)<<shift) / float64(sum)
	for j := lo; j < hi; j++ {
		done += height(j)
		now := int64(float64(float64(done)*unit) + 0.5)
		add(j, now-before)
		before = now
	}
}

func (j *job) resizeWide(sink Sink, t Transform, from []byte, stride int, scratch []byte) {
	const downBy, acrossBy = wideDown - wideLine, wideAcross + wideLine
	n := j.channels
	line := view[int64](scratch, j.sums, j.columns*n)
	out := scratch[j.out:][:j.width*n]
	down, across := t.Y.filter(), t.X.filter()
	for y := range j.height {
		for i := range line {
			line[i] = 1 << (downBy - 1)
		}
		down.each(y, wideDown, func(row int, weight int64) {
			for i, v := range from[(row-j.top)*stride:][:len(line)] {
				line[i] += weight * int64(v)
			}
		})
		for i := range line {
			line[i] >>= downBy
		}
		for x := range j.width {
			sums := [3]int64{1 << (acrossBy - 1), 1 << (acrossBy - 1), 1 << (acrossBy - 1)}
			across.each(x, wideAcross, func(column int, weight int64) {
				for c, v := range line[(column-j.left)*n:][:n] {
					sums[c] += weight * v
				}
			})
			for c := range n {
				out[x*n+c] = byte(sums[c] >> acrossBy)
			}
		}
		sink.PutRow(y, out)
	}
}
