package resample

// job is the work for one image: sizes, and where everything is in scratch.
type job struct {
	height, width, channels int // of the result
	top, left               int // the source's rectangle
	rows, columns           int
	padded                  int // width, rounded up to whole groups
	wide                    bool
	y, x                    fixed
	atY, weightsY           int // for every row of the result: its first source row, its weights
	atX, weightsX           int // for every column: its first value in a line, its weights
	arranged                int // weightsX in the kernel's layout
	line                    int // one row of the result before columns are resized: 16 bits per value
	out                     int // one row of the result
	sums                    int // wide only: 64 bits for each value of a source row
	scratch                 int
}

const (
	group     = 16  // columns that kernels make at once
	over      = 128 // bytes that they may read past a line, or write past a row
	alignment = 64
)

func newJob(t Transform, channels int) job {
	j := job{height: t.Y.N, width: t.X.N, channels: channels}
	j.top, j.left, j.rows, j.columns = t.Source()
	j.wide = t.Y.Step > narrow || t.X.Step > narrow
	values := j.columns * channels
	next := alignment - 1 // in case scratch is not aligned
	take := func(n int) (at int) {
		at = next
		next += (n + alignment - 1) &^ (alignment - 1)
		return at - (alignment - 1)
	}
	j.padded = (j.width + group - 1) &^ (group - 1)
	if j.wide {
		j.sums = take(8 * values)
	} else {
		j.y, j.x = t.Y.fixed(j.rows, 22), t.X.fixed(j.columns, 16)
		j.atY, j.weightsY = take(4*j.height), take(2*j.height*j.y.taps)
		j.atX, j.weightsX = take(4*j.padded), take(2*j.width*j.x.taps)
		j.arranged = take(over + j.padded*arrangedBytes(j.x.taps, channels))
		j.line = take(2*values + over)
	}
	j.out = take(j.padded*channels + over)
	j.scratch = next
	return j
}

// arrangedBytes is the maximum size of one column's weights in a kernel's layout: for three
// channels, each pair of taps four times; for one, taps in fours.
func arrangedBytes(taps, channels int) int {
	if channels == 3 {
		return taps/2*16 + 16
	}
	return (taps + 3) / 4 * 8
}

// prepare computes the weights.
func (j *job) prepare(t Transform, scratch []byte) {
	j.y.fill(t.Y, j.top, j.rows, 1, view[int32](scratch, j.atY, j.height), view[int16](scratch, j.weightsY, j.height*j.y.taps))
	at := view[int32](scratch, j.atX, j.padded)
	j.x.fill(t.X, j.left, j.columns, j.channels, at[:j.width], view[int16](scratch, j.weightsX, j.width*j.x.taps))
	clear(at[j.width:]) // kernels read there, with weights of 0
}
