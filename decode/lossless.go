package decode

import (
	"encoding/binary"
)

// The body of a lossless packed image:
//
//	0     1  pixels: what a pixel is
//	1     1  1 if samples have 16 bits, else 0
//	2     6  zeros
//	8   768  with indices only: the palette, 256 times red, green, blue
//	...      for each band of 16 rows, 4 bytes: where it ends, counted from the end of this table;
//	         and 4 bytes: its checksum
//	...      the bands, and zeros
//
// A band can be decoded alone, so a crop reads at most 15 rows in vain. Its rows follow one
// another, and in each row its planes: gray or indices; green, red - green and blue - green; and
// alpha, if there is any. With 16 bits these are planes of the high bytes, and as many follow of
// what the low bytes are more than the high ones. A row of a plane is a byte, its prediction; a
// width of 4 bits for each group of 16 residuals, the lower half of a byte first, for an even
// number of groups; and the residuals, two's complement of that width, the lowest bits first.
// Values beyond the image's right edge are there, and mean nothing. All arithmetic is modulo 256.
const (
	losslessBand    = 16
	losslessGroup   = 16
	losslessHead    = 8
	losslessPalette = 3 * 256
	losslessEntry   = 4 + sumBytes // of the table
)

// What a pixel is.
const (
	pixelsGray = 1 + iota
	pixelsGrayAlpha
	pixelsRGB
	pixelsRGBA
	pixelsIndex
	numPixels
)

// The predictions of a residual: the value to the left, the one above, or left + above - above
// left. Outside a band they are 0.
const (
	predictLeft = iota
	predictUp
	predictGradient
	numPredictions
)

// lossless is a body in parts.
type lossless struct {
	pixels  uint8
	wide    bool // 16 bits a sample
	width   int
	height  int
	palette []byte // or nil
	table   []byte
	bands   []byte // with packedSlack bytes at the end
}

// samplesOf returns how many samples a pixel has.
func samplesOf(pixels uint8) int {
	if pixels == pixelsIndex {
		return 1
	}
	return int(pixels)
}

// fits reports whether rows that are read have this kind of pixels and size.
func (l *lossless) fits(r *losslessRows) bool {
	return l.width == r.width && l.height == r.height && l.pixels == r.pixels && l.wide == r.wide
}

// planes is also the number of bytes of a stored pixel.
func (l *lossless) planes() int {
	if l.wide {
		return 2 * samplesOf(l.pixels)
	}
	return samplesOf(l.pixels)
}

// losslessPadded is the number of values in a row of a plane, two groups at least.
func losslessPadded(width int) int { return (width + 2*losslessGroup - 1) &^ (2*losslessGroup - 1) }

func losslessBands(height int) int { return (height + losslessBand - 1) / losslessBand }

// losslessRow is the largest size of a row of a plane.
func losslessRow(width int) int {
	padded := losslessPadded(width)
	return 1 + padded/losslessGroup/2 + padded
}

// losslessMost is the largest size of a body, without its packedSlack.
func losslessMost(width, height, planes int) int64 {
	head := losslessHead + losslessPalette + losslessEntry*losslessBands(height)
	return int64(head) + int64(height)*int64(planes)*int64(losslessRow(width))
}

func openLossless(p *packed) (l lossless, err error) {
	b := p.body
	if len(b) < losslessHead+packedSlack || b[0] == 0 || b[0] >= numPixels || b[1] > 1 || b[0] == pixelsIndex && b[1] > 0 {
		return l, corrupt("a body that does not say what its pixels are")
	}
	l = lossless{pixels: b[0], wide: b[1] == 1, width: p.width, height: p.height}
	b = b[losslessHead:]
	if l.pixels == pixelsIndex {
		if len(b) < losslessPalette {
			return l, endsEarly(true)
		}
		l.palette, b = b[:losslessPalette], b[losslessPalette:]
	}
	n := losslessEntry * losslessBands(l.height)
	least := int64(losslessRow(l.width)-losslessPadded(l.width)) * int64(l.planes()) * int64(l.height)
	if int64(len(b)-packedSlack) < int64(n)+least {
		return l, endsEarly(true)
	}
	l.table, l.bands = b[:n], b[n:]
	return l, nil
}

// band returns the bytes of a band; packedSlack bytes more can be read.
func (l *lossless) band(i int) ([]byte, error) {
	from, to := int64(0), int64(binary.LittleEndian.Uint32(l.table[losslessEntry*i:]))
	if i > 0 {
		from = int64(binary.LittleEndian.Uint32(l.table[losslessEntry*(i-1):]))
	}
	if from > to || to > int64(len(l.bands)-packedSlack) {
		return nil, corrupt("rows that are not in the body")
	}
	return l.bands[from:to], nil
}

// losslessRows reads the rows of a body in Go.
type losslessRows struct {
	lossless
	next   int    // the row that is read next
	left   []byte // of its band
	values [][]byte
}

func (l *lossless) rows() *losslessRows {
	r := &losslessRows{lossless: *l, next: -1}
	for range l.planes() {
		r.values = append(r.values, make([]byte, losslessPadded(l.width)))
	}
	return r
}

// seek reads up to row y. Its planes are then in values.
func (r *losslessRows) seek(y int) (err error) {
	if r.next < 0 || y < r.next || y/losslessBand > (r.next-1)/losslessBand {
		r.next, r.left = y/losslessBand*losslessBand, nil
	}
	for ; r.next <= y; r.next++ {
		if r.next%losslessBand == 0 {
			if r.left, err = r.band(r.next / losslessBand); err != nil {
				return err
			}
			for _, plane := range r.values {
				clear(plane)
			}
		}
		for _, plane := range r.values {
			n, ok := unpackRow(plane, r.left)
			if !ok {
				return corrupt("residuals of an impossible width, or that end early")
			}
			r.left = r.left[n:]
		}
	}
	return nil
}

// stored writes the last row read in its stored form: samples interleaved, the high byte of each
// first.
func (r *losslessRows) stored(to []byte) {
	n := samplesOf(r.pixels)
	if !r.wide {
		interleave(to, r.values, 1, r.width)
		return
	}
	interleave(to, r.values[:n], 2, r.width)
	interleave(to[1:], r.values[n:], 2, r.width)
	for i := range r.width * n {
		to[2*i+1] += to[2*i]
	}
}

// interleave writes the samples of planes step bytes apart.
func interleave(to []byte, planes [][]byte, step, width int) {
	n := step * len(planes)
	for x := range width {
		p := to[x*n:]
		for i := range planes {
			p[i*step] = planes[i][x]
		}
		if len(planes) >= 3 {
			g := planes[0][x]
			p[0], p[step], p[2*step] = planes[1][x]+g, g, planes[2][x]+g
		}
	}
}

// goLossless decodes in Go.
func goLossless(_ *codecState, dst Image, p packed, v view) error {
	l, err := openLossless(&p)
	if err != nil {
		return err
	}
	r := l.rows()
	var table colorTable
	for i := range len(l.palette) / 3 {
		copy(table[i][:], l.palette[3*i:])
	}
	line := make([]byte, l.width*l.planes())
	emit(dst, v, func(y int, to []byte) {
		if err == nil {
			err = r.seek(y)
		}
		if err == nil {
			r.stored(line)
			l.show(to, line, RGB, &table)
		}
	})
	return err
}

var goKinds = packedKinds{kindLossless: goLossless, kindCoefficients: goCoefficients}
