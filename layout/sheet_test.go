package layout

import (
	"bytes"
	"image"
	"image/color"
	"image/png"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/batchfs/batchfs/internal/testkit"
)

// floatBatch writes a batch of random pixels as bytes and as elements of s.
func floatBatch(t testing.TB, s Spec, n Normalization) (c *Converter, floats, pixels []byte) {
	t.Helper()
	c, err := NewConverter(s.DType, s.C, n)
	testkit.Must(t, err)
	w := NewWriter(c, 0)
	defer w.Close()
	plain := s
	plain.DType, plain.Order = Uint8, NHWC
	pixels, floats = randomBytes(rand.New(rand.NewPCG(uint64(s.W), 5)), int(plain.Bytes())), make([]byte, s.Bytes())
	from, to := int(plain.SampleBytes()), int(s.SampleBytes())
	for i := range s.N {
		w.Begin(floats[i*to:(i+1)*to], s, s.H, s.W, false, 0)
		w.putRows(0, s.H, pixels[i*from:], s.W*s.C)
		w.End()
	}
	return c, floats, pixels
}

// drawSheet draws a sheet of a batch in dirty memory, and decodes it.
func drawSheet(t testing.TB, s Spec, pixels []byte, valid int) (image.Image, []byte) {
	t.Helper()
	c, err := NewConverter(s.DType, s.C, normFor(s))
	testkit.Must(t, err)
	file := bytes.Repeat([]byte{0xAA}, int(Size(PNG, s)))
	c.PutSheet(file, s, pixels, valid, nil)
	r := bytes.NewReader(file)
	img, err := png.Decode(r)
	if err != nil {
		t.Fatalf("%+v: %v", s, err)
	}
	if r.Len() != 0 {
		t.Errorf("%+v: %d bytes behind the picture", s, r.Len())
	}
	if s.C == 1 {
		if _, ok := img.(*image.Gray); !ok {
			t.Errorf("%+v: gray became %T", s, img)
		}
	}
	return img, file
}

// wantThumb computes a pixel of a thumbnail the obvious way, from bytes in NHWC.
func wantThumb(s Spec, pix []byte, g sheet, tx, ty, c int) uint8 {
	sum, n := 0, 0
	for y := ty * g.scale; y < min(s.H, (ty+1)*g.scale); y++ {
		for x := tx * g.scale; x < min(s.W, (tx+1)*g.scale); x++ {
			sum += int(pix[(y*s.W+x)*s.C+c])
			n++
		}
	}
	return uint8((sum + n/2) / n)
}

// TestSheet: thumbnails of every type and order show the 8-bit pixels behind the elements.
func TestSheet(t *testing.T) {
	for i, s := range []Spec{
		{N: 1, H: 1, W: 1, C: 3}, {N: 5, H: 7, W: 9, C: 1}, {N: 3, H: 200, W: 191, C: 3},
		{N: 2, H: 401, W: 577, C: 3}, {N: 2, H: 193, W: 10, C: 1}, {N: 130, H: 70, W: 300, C: 3},
		{N: 7, H: 1, W: 2000, C: 3}, {N: 2, H: 3000, W: 1, C: 3}, {N: 4096, H: 3, W: 40, C: 1},
	} {
		for d := Uint8; d <= Float32; d++ {
			if s.DType, s.Order = d, Order(i+int(d))%2; d == Uint8 || s.Bytes() < 1<<22 {
				checkSheet(t, s)
			}
		}
	}
}

func checkSheet(t *testing.T, s Spec) {
	t.Helper()
	_, elements, pixels := floatBatch(t, s, normFor(s))
	img, _ := drawSheet(t, s, elements, s.N)
	g := newSheet(s)
	if max(g.thumbW, g.thumbH) > sheetCell {
		t.Errorf("%+v: thumbnails of %dx%d", s, g.thumbW, g.thumbH)
	}
	each := s.H * s.W * s.C
	for i := range s.N {
		x0 := sheetMargin + i%g.cols*(g.thumbW+sheetMargin)
		y0 := sheetMargin + i/g.cols*(g.thumbH+sheetMargin)
		for _, p := range []image.Point{{0, 0}, {g.thumbW - 1, 0}, {g.thumbW / 2, g.thumbH / 2}, {g.thumbW - 1, g.thumbH - 1}} {
			r, gr, b, _ := img.At(x0+p.X, y0+p.Y).RGBA()
			got := [3]uint8{uint8(r >> 8), uint8(gr >> 8), uint8(b >> 8)}
			for c := range g.chans {
				if want := wantThumb(s, pixels[i*each:(i+1)*each], g, p.X, p.Y, c); got[c] != want {
					t.Fatalf("%+v: sample %d at %v: %v, channel %d should be %d", s, i, p, got, c, want)
				}
			}
		}
		if got := img.At(x0-1, y0-1); color.GrayModel.Convert(got) != (color.Gray{Y: sheetBackground}) {
			t.Fatalf("%+v: margin is %v", s, got)
		}
	}
}

// Padded slots look different, and do not affect valid ones.
func TestSheetPadded(t *testing.T) {
	s := Spec{N: 2, H: 20, W: 30, C: 3}
	pixels := bytes.Repeat([]byte{0xFF}, int(s.Bytes()))
	img, _ := drawSheet(t, s, pixels, 1)
	g := newSheet(s)
	white, padded := 0, 0
	for y := range img.Bounds().Dy() {
		for x := range img.Bounds().Dx() {
			switch r, _, _, _ := img.At(x, y).RGBA(); r >> 8 {
			case 0xFF:
				white++
			case 0x55:
				padded++
			}
		}
	}
	if white != g.thumbW*g.thumbH || padded != white-g.thumbH {
		t.Errorf("%d white and %d dimmed pixels in thumbnails of %dx%d", white, padded, g.thumbW, g.thumbH)
	}
	// The diagonal goes from the top left to the bottom right.
	for ty := range g.thumbH {
		x, y := sheetMargin+g.thumbW+sheetMargin+ty*g.thumbW/g.thumbH, sheetMargin+ty
		if got := color.GrayModel.Convert(img.At(x, y)); got != (color.Gray{Y: 160}) {
			t.Errorf("%v instead of the diagonal in row %d", got, ty)
		}
	}
}

func TestSheetEmpty(t *testing.T) {
	for _, s := range []Spec{{C: 3}, {C: 1}, {H: 375, W: 500, C: 3}, {N: 4, C: 3}, {N: 4, H: 8, C: 3}} {
		img, file := drawSheet(t, s, nil, 0)
		if b := img.Bounds(); b.Dx() < 8 || b.Dy() < 8 || len(file) > 1<<16 {
			t.Errorf("%+v: a picture of %v in %d bytes", s, b, len(file))
		}
	}
}

// A sheet can be drawn only from elements of the converter's own type.
func TestSheetOfOthers(t *testing.T) {
	s := Spec{N: 1, H: 4, W: 4, C: 3, DType: Float32}
	c, floats, _ := floatBatch(t, s, imagenet)
	file := make([]byte, Size(PNG, s))
	for _, other := range []Spec{{N: 1, H: 4, W: 4, C: 3, DType: Float16}, {N: 1, H: 4, W: 12, C: 1, DType: Float32}} {
		if !panics(func() { c.PutSheet(file, other, floats, 1, nil) }) {
			t.Errorf("%+v: drawn", other)
		}
	}
}

func TestSheetSizes(t *testing.T) {
	for n := 0; n < 3000; n = n*5/4 + 1 {
		for _, hw := range [][2]int{{1, 1}, {375, 500}, {1, 60000}, {60000, 1}, {1024, 2048}} {
			s := Spec{N: n, H: hw[0], W: hw[1], C: 3}
			g := newSheet(s)
			if g.cols*g.rows < n || g.width*3+1 > maxStored {
				t.Errorf("%+v: %d x %d thumbnails, %d pixels wide", s, g.cols, g.rows, g.width)
			}
			last := g.png.row(make([]byte, g.png.size()), g.height-1)
			if len(last) != 3*g.width {
				t.Errorf("%+v: rows of %d bytes", s, len(last))
			}
		}
	}
}

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
