package resample

// lineBits: a line holds pixels times 2^lineBits.
const lineBits = 7

const block = 64 // values that stay in the first-level cache

// resizeRow makes row y of the result in scratch. Every C kernel is tested against it, and
// builds without cgo have nothing else.
func (j *job) resizeRow(y int, from []byte, stride int, scratch []byte) []byte {
	values := j.columns * j.channels
	line := view[int16](scratch, j.line, values)
	first := int(view[int32](scratch, j.atY, j.height)[y])
	weights := view[int16](scratch, j.weightsY, j.height*j.y.taps)[y*j.y.taps:][:j.y.taps]
	down(line, from[first*stride:], stride, weights[:min(j.y.taps, j.rows)], uint(j.y.shift-lineBits))

	out := scratch[j.out:][:j.width*j.channels]
	at := view[int32](scratch, j.atX, j.width)
	weights = view[int16](scratch, j.weightsX, j.width*j.x.taps)
	line = view[int16](scratch, j.line, values+over/2)
	across(out, line, at, weights, j.x.taps, uint(j.x.shift+lineBits), j.channels)
	return out
}

// down makes a line from the source rows that have a weight, a block of values at a time.
func down(line []int16, from []byte, stride int, weights []int16, shift uint) {
	for ; len(line) > 0; line, from = line[min(len(line), block):], from[min(len(from), block):] {
		var sums [block]int32
		n := min(len(line), block)
		for t, w := range weights {
			for i, v := range from[t*stride:][:n] {
				sums[i] += int32(w) * int32(v)
			}
		}
		for i := range line[:n] {
			line[i] = int16((sums[i] + 1<<(shift-1)) >> shift)
		}
	}
}

func across(out []byte, line []int16, at []int32, weights []int16, taps int, shift uint, channels int) {
	for i, first := range at {
		weights := weights[i*taps:][:taps]
		for c := range channels {
			from, sum := line[int(first)+c:], int32(1)<<(shift-1)
			for t, w := range weights {
				sum += int32(w) * int32(from[t*channels])
			}
			out[i*channels+c] = byte(sum >> shift)
		}
	}
}
