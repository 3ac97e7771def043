package layout

import (
	"encoding/binary"
	"math"
)

// sheet is the geometry of a contact sheet: a grid of thumbnails, each a box average of its
// sample by one integer factor. Everything follows from the Spec.
type sheet struct {
	scale          int // samples are shrunk by this factor
	thumbW, thumbH int
	cols, rows     int
	chans          int // 1: gray, 3: RGB
	width, height  int
	png            stored
}

const (
	sheetMargin     = 4    // pixels around each thumbnail
	sheetBackground = 24   // nearly black, so that pictures stand out
	sheetCell       = 192  // maximum side of a thumbnail
	sheetSmallCell  = 32   // and the minimum when there are many
	sheetSide       = 2048 // the approximate width of the picture
	sheetMaxWidth   = 20000
)

func newSheet(s Spec) sheet {
	across := ceilSqrt(s.N)
	limit := min(max(sheetSide/max(across, 1), sheetSmallCell), sheetCell)
	g := sheet{scale: 1, chans: 3, rows: 1, cols: 1, thumbW: sheetSmallCell, thumbH: sheetSmallCell}
	if s.C == 1 {
		g.chans = 1
	}
	if s.N > 0 && s.H > 0 && s.W > 0 {
		g.scale = max(1, ceilDiv(max(s.H, s.W), limit))
		g.thumbW, g.thumbH = ceilDiv(s.W, g.scale), ceilDiv(s.H, g.scale)
		// Enough columns for a picture of about 4:3.
		g.cols = ceilSqrt(ceilDiv(s.N*4*(g.thumbH+sheetMargin), 3*(g.thumbW+sheetMargin)))
		g.cols = min(g.cols, s.N, sheetMaxWidth/(g.thumbW+sheetMargin))
		g.rows = ceilDiv(s.N, g.cols)
	}
	g.width = sheetMargin + g.cols*(g.thumbW+sheetMargin)
	g.height = sheetMargin + g.rows*(g.thumbH+sheetMargin)
	g.png = stored{g.width * g.chans, g.height}
	return g
}

// PutSheet draws the contact sheet of a batch into dst, Size(PNG, s) bytes, as a PNG. pixels is the
// batch's tensor in s.Order, with elements made by the Converter. It is not modified: the sheet
// shows the 8-bit pixels that the elements were made from. Slots from valid on only repeat a
// sample; they are dimmed and struck through. frames are boxes to draw, or nil. Nothing is
// allocated that grows with the batch.
func (c *Converter) PutSheet(dst []byte, s Spec, pixels []byte, valid int, frames []Frame) {
	if s.DType != c.dtype || s.C != c.channels {
		panic("layout: a tensor of other elements than the converter's")
	}
	g, each := newSheet(s), int(s.SampleBytes())
	if each == 0 {
		s.N, frames = 0, nil
	}
	g.draw(dst, s.N, valid, func(out []byte, i, ty int) {
		g.shrink(out, &source{s, c, pixels[i*each : (i+1)*each]}, ty)
	})
	for i := range frames {
		g.drawFrame(dst, &frames[i])
	}
	g.png.finish(dst[:g.png.size()], g.width, g.height, g.chans)
}

// draw draws the thumbnails of n slots into a PNG, but nothing around its pixels. thumb draws row
// ty of slot i's thumbnail. Slots from valid on are dimmed and struck through.
func (g *sheet) draw(dst []byte, n, valid int, thumb func(out []byte, i, ty int)) {
	for y := range g.height {
		row := g.png.row(dst, y)
		for x := range row {
			row[x] = sheetBackground
		}
	}
	for i := range n {
		left, top := g.place(i)
		for ty := range g.thumbH {
			out := g.png.row(dst, top+ty)[left*g.chans:][:g.thumbW*g.chans]
			if thumb(out, i, ty); i >= valid {
				g.strike(out, ty)
			}
		}
	}
}

// place is where the thumbnail of slot i is.
func (g *sheet) place(i int) (left, top int) {
	return sheetMargin + i%g.cols*(g.thumbW+sheetMargin), sheetMargin + i/g.cols*(g.thumbH+sheetMargin)
}

// A source is one sample's part of a tensor.
type source struct {
	Spec
	convert *Converter
	pix     []byte
}

// shrink draws row ty of a sample's thumbnail.
func (g *sheet) shrink(out []byte, src *source, ty int) {
	var sums [3 * sheetCell]uint32
	y0, y1 := ty*g.scale, min((ty+1)*g.scale, src.H)
	for y := y0; y < y1; y++ {
		g.addRow(sums[:], src, y)
	}
	g.putAverages(out, sums[:], src.W, y1-y0)
}

// addRow adds row y of a sample to the sums of its row of the thumbnail.
func (g *sheet) addRow(sums []uint32, src *source, y int) {
	for c := range min(g.chans, src.C) {
		first, step := y*src.W*src.C+c, src.C
		if src.Order == NCHW {
			first, step = (c*src.H+y)*src.W, 1
		}
		for x := range g.thumbW {
			n := min(g.scale, src.W-x*g.scale)
			sums[x*g.chans+c] += src.sum(first+x*g.scale*step, step, n, c)
		}
	}
}

// sum adds n pixels of channel c, starting at element first of the sample, step elements apart.
func (src *source) sum(first, step, n, c int) (sum uint32) {
	size, value := src.DType.Size(), src.convert.values[c]
	for ; n > 0; n, first = n-1, first+step {
		switch at := src.pix[first*size:]; size {
		case 1:
			sum += uint32(at[0])
		case 2:
			sum += uint32(value[uint32(binary.LittleEndian.Uint16(at))])
		default:
			sum += uint32(value[binary.LittleEndian.Uint32(at)])
		}
	}
	return sum
}

// putAverages turns sums over boxes of the given number of rows into pixels.
func (g *sheet) putAverages(out []byte, sums []uint32, w, rows int) {
	for x := range g.thumbW {
		n := uint32(min(g.scale, w-x*g.scale) * rows)
		for c := range g.chans {
			k := x*g.chans + c
			out[k] = byte((sums[k] + n/2) / n)
		}
	}
}

// strike dims a row of a padded slot's thumbnail and draws its part of the diagonal, so that
// padding shows on dark pictures too.
func (g *sheet) strike(out []byte, ty int) {
	for k := range out {
		out[k] /= 3
	}
	x := ty * g.thumbW / g.thumbH
	for k := x * g.chans; k < (x+1)*g.chans; k++ {
		out[k] = 160
	}
}

func ceilDiv(a, b int) int { return (a + b - 1) / b }

// ceilSqrt returns the smallest r with r*r >= n.
func ceilSqrt(n int) int { return int(math.Ceil(math.Sqrt(float64(max(n, 0))))) }
