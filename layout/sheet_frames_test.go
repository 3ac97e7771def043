package layout

import (
	"bytes"
	"image/color"
	"image/png"
	"math"
	"testing"

	"github.com/batchfs/batchfs/internal/testkit"
)

// TestSheetFrames: a sheet has frames in the colours of their labels where the boxes are, even if a
// box reaches beyond the image. Frames do not change its size.
func TestSheetFrames(t *testing.T) {
	for _, channels := range []int{1, 3} {
		s, err := NewSpec(2, 40, 60, channels, Uint8, NHWC)
		testkit.Must(t, err)
		c, err := NewConverter(Uint8, channels, Normalization{})
		testkit.Must(t, err)
		pixels, file := make([]byte, s.Bytes()), make([]byte, Size(PNG, s))
		far := float32(math.Inf(1))
		c.PutSheet(file, s, pixels, 2, []Frame{{0, 0, [4]float32{10, 5, 20.5, 9}}, {1, 1, [4]float32{-far, -3, far, 1e30}}})
		m, err := png.Decode(bytes.NewReader(file))
		testkit.Must(t, err)
		g := newSheet(s)
		at := func(slot, x, y int) color.Color {
			left, top := g.place(slot)
			return color.RGBAModel.Convert(m.At(left+x, top+y))
		}
		first, second, black := color.RGBA{128, 0, 0, 255}, color.RGBA{0, 128, 0, 255}, color.RGBA{0, 0, 0, 255}
		if channels == 1 {
			first = color.RGBA{255, 255, 255, 255}
			second = first
		}
		for _, p := range []struct {
			slot, x, y int
			want       color.Color
		}{
			{0, 10, 5, first}, {0, 20, 8, first}, {0, 15, 8, first}, {0, 15, 9, black}, {0, 10, 7, first}, {0, 15, 7, black}, {0, 9, 5, black}, {0, 21, 8, black},
			{1, 0, 0, second}, {1, 59, 39, second}, {1, 59, 20, second}, {1, 30, 20, black},
		} {
			if got := at(p.slot, p.x, p.y); got != p.want {
				t.Errorf("%d channels, slot %d: %d, %d is %v, not %v", channels, p.slot, p.x, p.y, got, p.want)
			}
		}
	}
}
