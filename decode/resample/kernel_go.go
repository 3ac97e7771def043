package resample

// lineBits: a line holds pixels times 2^lineBits.
const lineBits = 7

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
	if j.channels == 3 {
		acrossRGB(out, line, at, weights, j.x.taps, uint(j.x.shift+lineBits))
	} else {
		acrossGray(out, line, at, weights, j.x.taps, uint(j.x.shift+lineBits))
	}
	return out
}

// down makes a line from the source rows that have a weight.
func down(line []int16, from []byte, stride int, weights []int16, shift uint) {
	half := int32(1) << (shift - 1)
	if len(weights) <= 4 {
		downFour(line, from, stride, weights, half, shift)
		return
	}
	for i := range line {
		sum, from := half, from[i:]
		for t, w := range weights {
			sum += int32(w) * int32(from[t*stride])
		}
		line[i] = int16(sum >> shift)
	}
}

// downFour replaces missing rows by the first row with weight 0.
func downFour(line []int16, from []byte, stride int, weights []int16, half int32, shift uint) {
	var rows [4][]byte
	var w [4]int32
	for t := range rows {
		rows[t] = from[:len(line)]
		if t < len(weights) {
			rows[t], w[t] = from[t*stride:][:len(line)], int32(weights[t])
		}
	}
	a, b, c, d := rows[0][:len(line)], rows[1][:len(line)], rows[2][:len(line)], rows[3][:len(line)]
	for i := range line {
		line[i] = int16((half + w[0]*int32(a[i]) + w[1]*int32(b[i]) + w[2]*int32(c[i]) + w[3]*int32(d[i])) >> shift)
	}
}

func acrossRGB(out []byte, line []int16, at []int32, weights []int16, taps int, shift uint) {
	half := int32(1) << (shift - 1)
	for i, first := range at {
		from := line[first:][:3*taps]
		r, g, b := half, half, half
		for _, w := range weights[i*taps:][:taps] {
			r += int32(w) * int32(from[0])
			g += int32(w) * int32(from[1])
			b += int32(w) * int32(from[2])
			from = from[3:]
		}
		p := out[3*i:][:3]
		p[0], p[1], p[2] = byte(r>>shift), byte(g>>shift), byte(b>>shift)
	}
}

func acrossGray(out []byte, line []int16, at []int32, weights []int16, taps int, shift uint) {
	half := int32(1) << (shift - 1)
	for i, first := range at {
		from := line[first:][:taps]
		sum := half
		for t, w := range weights[i*taps:][:taps] {
			sum += int32(w) * int32(from[t])
		}
		out[i] = byte(sum >> shift)
	}
}
