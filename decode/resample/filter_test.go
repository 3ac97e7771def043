package resample

import (
	"bytes"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/batchfs/batchfs/internal/kernel"
	"github.com/batchfs/batchfs/internal/testkit"
)

// TestFilters: the arithmetic documented for Filter makes the same pixels as Resize.
func TestFilters(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 3))
	for range 300 {
		h, w := 1+r.IntN(60), 1+r.IntN(60)
		o := Options{Mode: Mode(r.IntN(int(numModes))), Height: 1 + r.IntN(40), Width: 1 + r.IntN(40), CropArea: DefaultCropArea, CropRatio: DefaultCropRatio, ResizeTo: 40 + r.IntN(20)}
		tr := o.Choose(0, int64(r.Uint32()), h, w)
		pix := make([]byte, h*w)
		for i := range pix {
			pix[i] = byte(r.Uint32())
		}
		var want canvas
		testkit.Must(t, Resize(&want, Image{Pix: pix, Stride: w, Height: h, Width: w, Channels: 1}, tr, make([]byte, ScratchBytes(tr, 1)), kernel.Fastest))
		y, x, ok := tr.Filters()
		if !ok {
			t.Fatalf("%+v has no filters", tr)
		}
		if got := filtered(pix, w, tr, y, x); !bytes.Equal(got, want.pix) {
			t.Fatalf("%+v: other pixels", tr)
		}
	}
	if _, _, ok := (Options{Mode: Stretch, Height: 1, Width: 1}).Choose(0, 0, 129, 1).Filters(); ok {
		t.Error("there are filters for a step of 129 pixels")
	}
}

// filtered combines rows, then columns.
func filtered(pix []byte, stride int, t Transform, y, x Filter) (out []byte) {
	h, w := t.Size()
	atY, weightsY, atX, weightsX := make([]int32, h), make([]int16, h*y.Taps), make([]int32, w), make([]int16, w*x.Taps)
	y.Fill(atY, weightsY)
	x.Fill(atX, weightsX)
	for i := range h {
		line := make([]int, x.Size+1)
		for c := range x.Size {
			sum := 1 << (y.Shift - 1)
			for k := range min(y.Taps, y.Size) {
				sum += int(weightsY[i*y.Taps+k]) * int(pix[(y.First+int(atY[i])+k)*stride+x.First+c])
			}
			line[c] = sum >> y.Shift
		}
		for j := range w {
			sum := 1 << (x.Shift - 1)
			for k := range x.Taps {
				sum += int(weightsX[j*x.Taps+k]) * line[int(atX[j])+k]
			}
			out = append(out, byte(sum>>x.Shift))
		}
		if span := int(atX[w-1]) + x.Taps - int(atX[0]); span > x.Span(w) {
			panic("a span that is too long")
		}
	}
	return out
}

// reference is what Resize must come close to, written from the definition and sharing no code
// with it: a matrix of weights per axis, in float64, applied to columns first, with one rounding
// at the end.
func reference(src Image, t Transform) []byte {
	my, mx := matrix(t.Y), matrix(t.X)
	out := make([]byte, 0, t.Y.N*t.X.N*src.Channels)
	narrowed := make([][]float64, src.Height)
	for _, row := range my {
		acc := make([]float64, t.X.N*src.Channels)
		for y, wy := range row {
			if narrowed[y] == nil {
				narrowed[y] = make([]float64, t.X.N*src.Channels)
				for i, columns := range mx {
					for x, wx := range columns {
						for c := range src.Channels {
							narrowed[y][i*src.Channels+c] += wx * float64(src.Pix[y*src.Stride+x*src.Channels+c])
						}
					}
				}
			}
			for i, v := range narrowed[y] {
				acc[i] += wy * v
			}
		}
		for _, v := range acc {
			out = append(out, byte(math.Floor(v+0.5)))
		}
	}
	return out
}

// matrix returns, for each output, the weight of each pixel that has one.
func matrix(a Axis) []map[int]float64 {
	radius := math.Max(1, a.Step)
	m := make([]map[int]float64, a.N)
	for i := range m {
		centre := a.Start + (float64(i)+0.5)*a.Step
		m[i] = map[int]float64{}
		sum := 0.0
		for j := max(a.Lo, int(centre-radius)-2); j < min(a.Hi, int(centre+radius)+3); j++ {
			if w := 1 - math.Abs(float64(j)+0.5-centre)/radius; w > 0 {
				m[i][j] = w
				sum += w
			}
		}
		for j := range m[i] {
			m[i][j] /= sum
		}
	}
	return m
}
