package decode

import (
	"encoding/binary"
	"fmt"
	"math"
)

// The body of a lossless packed image:
//
//	0     1  pixels: what a pixel is
//	1     7  zeros
//	8   768  with indices only: the palette, 256 times red, green, blue
//	...      for each band of 16 rows, 4 bytes: where it starts, counted from the end of this table;
//	         and once more, where the last one ends
//	...      the bands, and zeros
//
// A band can be decoded alone, so a crop reads at most 15 rows in vain. Its rows follow one
// another, and in each row its planes: gray or indices; green, red - green and blue - green; and
// alpha, if there is any. A row of a plane is a byte, its prediction; a width of 4 bits for each
// group of 16 residuals, the lower half of a byte first, for an even number of groups; and the
// residuals, two's complement of that width, the lowest bits first. Values beyond the image's
// right edge are there, and mean nothing. All arithmetic is modulo 256.
const (
	losslessBand    = 16
	losslessGroup   = 16
	losslessHead    = 8
	losslessPalette = 3 * 256
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
	width   int
	height  int
	palette []byte // or nil
	table   []byte
	bands   []byte // with packedSlack bytes at the end
}

func planesOf(pixels uint8) int {
	if pixels == pixelsIndex {
		return 1
	}
	return int(pixels)
}

// losslessPadded is the number of values in a row of a plane, two groups at least.
func losslessPadded(width int) int { return (width + 2*losslessGroup - 1) &^ (2*losslessGroup - 1) }

func losslessBands(height int) int { return (height + losslessBand - 1) / losslessBand }

func openLossless(p *packed) (l lossless, err error) {
	b := p.body
	if len(b) < losslessHead+packedSlack || b[0] == 0 || b[0] >= numPixels {
		return l, corrupt("a body that does not say what its pixels are")
	}
	l = lossless{pixels: b[0], width: p.width, height: p.height}
	b = b[losslessHead:]
	if l.pixels == pixelsIndex {
		if len(b) < losslessPalette {
			return l, endsEarly(true)
		}
		l.palette, b = b[:losslessPalette], b[losslessPalette:]
	}
	n := 4 * (losslessBands(l.height) + 1)
	if len(b)-packedSlack < n {
		return l, endsEarly(true)
	}
	l.table, l.bands = b[:n], b[n:]
	return l, nil
}

// band returns the bytes of a band; packedSlack bytes more can be read.
func (l *lossless) band(i int) ([]byte, error) {
	from, to := int64(binary.LittleEndian.Uint32(l.table[4*i:])), int64(binary.LittleEndian.Uint32(l.table[4*i+4:]))
	if from > to || to > int64(len(l.bands)-packedSlack) {
		return nil, corrupt("rows that are not in the body")
	}
	return l.bands[from:to], nil
}

// pack makes a body of whole pixels.
func (l *lossless) pack(pix []byte, kernel Kernel) ([]byte, error) {
	planes, padded := planesOf(l.pixels), losslessPadded(l.width)
	packer := newRowPacker(l.width, planes, kernel)
	row := planes * (1 + padded/losslessGroup/2 + padded)
	table := losslessHead + len(l.palette)
	start := table + 4*(losslessBands(l.height)+1)
	out := make([]byte, start, start+len(pix)/2+row+packedSlack)
	out[0] = l.pixels
	copy(out[losslessHead:], l.palette)
	for y := range l.height {
		if y%losslessBand == 0 {
			binary.LittleEndian.PutUint32(out[table:], uint32(len(out)-start))
			table += 4
			packer.restart()
		}
		out = packer.append(out, pix[y*l.width*planes:][:l.width*planes])
		if len(out)-start > math.MaxUint32 {
			return nil, fmt.Errorf("%w: it is too large", ErrNoPackedForm)
		}
	}
	binary.LittleEndian.PutUint32(out[table:], uint32(len(out)-start))
	return append(out, make([]byte, packedSlack)...), nil
}

// packLossless sets the body, and the remainder for a file. pix are the image's RGB pixels.
func (p *packed) packLossless(pix, data []byte, keep Remainder, kernel Kernel) (err error) {
	l := lossless{pixels: pixelsRGB, width: p.width, height: p.height}
	if keep == ForFile {
		if pix, err = p.stored(&l, pix, data); err != nil {
			return err
		}
	} else if g, ok := grayAlone(pix); ok {
		l.pixels, pix = pixelsGray, g
	}
	p.body, err = l.pack(pix, kernel)
	return err
}

// grayAlone returns one byte for each pixel if all pixels are gray.
func grayAlone(rgb []byte) ([]byte, bool) {
	for i := 0; i < len(rgb); i += 3 {
		if p := rgb[i : i+3]; p[0] != p[1] || p[1] != p[2] {
			return nil, false
		}
	}
	out := make([]byte, len(rgb)/3)
	for i := range out {
		out[i] = rgb[3*i]
	}
	return out, true
}

// losslessRows reads the rows of a body in Go, each as interleaved planes.
type losslessRows struct {
	lossless
	next   int    // the row that is read next
	left   []byte // of its band
	planes [4][]byte
}

func (l *lossless) rows() *losslessRows {
	r := &losslessRows{lossless: *l, next: -1}
	for i := range planesOf(l.pixels) {
		r.planes[i] = make([]byte, losslessPadded(l.width))
	}
	return r
}

// seek reads up to row y, which is then in planes.
func (r *losslessRows) seek(y int) (err error) {
	if r.next < 0 || y < r.next || y/losslessBand > (r.next-1)/losslessBand {
		r.next, r.left = y/losslessBand*losslessBand, nil
	}
	for ; r.next <= y; r.next++ {
		if r.next%losslessBand == 0 {
			if r.left, err = r.band(r.next / losslessBand); err != nil {
				return err
			}
			for i := range r.planes {
				clear(r.planes[i])
			}
		}
		for i := range planesOf(r.pixels) {
			n, ok := unpackRow(r.planes[i], r.left)
			if !ok {
				return corrupt("residuals of an impossible width, or that end early")
			}
			r.left = r.left[n:]
		}
	}
	return nil
}

// stored writes the row that was read as it is stored: planes interleaved.
func (r *losslessRows) stored(to []byte) {
	n := planesOf(r.pixels)
	for x := range r.width {
		for i := range n {
			to[x*n+i] = r.planes[i][x]
		}
		if n >= 3 {
			g := r.planes[0][x]
			to[x*n], to[x*n+1], to[x*n+2] = r.planes[1][x]+g, g, r.planes[2][x]+g
		}
	}
}

// goLossless decodes in Go.
func goLossless(_ *kept, dst Image, p packed, v view) error {
	l, err := openLossless(&p)
	if err != nil {
		return err
	}
	r := l.rows()
	n := planesOf(l.pixels)
	line := make([]byte, l.width*n)
	emit(dst, v, func(y int, to []byte) {
		if err != nil {
			return
		}
		if err = r.seek(y); err != nil {
			return
		}
		r.stored(line)
		for x := range l.width {
			switch p := line[x*n:]; {
			case l.palette != nil:
				copy(to[3*x:3*x+3], l.palette[3*int(p[0]):])
			case n < 3:
				to[3*x], to[3*x+1], to[3*x+2] = p[0], p[0], p[0]
			default:
				copy(to[3*x:3*x+3], p)
			}
		}
	})
	return err
}

var goKinds = packedKinds{kindLossless: goLossless, kindCoefficients: goCoefficients}
