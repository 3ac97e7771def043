package plot

import (
	"image"
	"image/color"
	"image/draw"
	"image/png"
	"io"
	"math"

	"golang.org/x/image/font"
	"golang.org/x/image/font/basicfont"
	"golang.org/x/image/math/fixed"
)

// raster is a pixel canvas.
type raster struct{ img *image.RGBA }

func newRaster(width, height int) *raster {
	r := &raster{image.NewRGBA(image.Rect(0, 0, width, height))}
	draw.Draw(r.img, r.img.Rect, image.White, image.Point{}, draw.Src)
	return r
}

const dash, gap = 7.0, 5.0

func (r *raster) Line(points []Spot, c color.RGBA, width float64, dashed bool) {
	done := 0.0 // length drawn so far
	for i := 1; i < len(points); i++ {
		a, b := points[i-1], points[i]
		length := math.Hypot(b.X-a.X, b.Y-a.Y)
		if length == 0 {
			continue
		}
		along := func(t float64) Spot { return Spot{a.X + (b.X-a.X)*t/length, a.Y + (b.Y-a.Y)*t/length} }
		if !dashed {
			r.stroke(a, b, width/2, c)
			continue
		}
		for t := 0.0; t < length; {
			phase := math.Mod(done+t, dash+gap)
			if phase < dash {
				end := min(length, t+dash-phase)
				r.stroke(along(t), along(end), width/2, c)
			}
			t += max(1e-6, dash+gap-phase)
		}
		done += length
	}
}

func (r *raster) Disc(at Spot, radius float64, c color.RGBA) { r.stroke(at, at, radius, c) }

// stroke fills the area within radius of the segment from a to b, antialiased.
func (r *raster) stroke(a, b Spot, radius float64, c color.RGBA) {
	left, right := int(min(a.X, b.X)-radius-1), int(max(a.X, b.X)+radius+1)
	top, bottom := int(min(a.Y, b.Y)-radius-1), int(max(a.Y, b.Y)+radius+1)
	for y := top; y <= bottom; y++ {
		for x := left; x <= right; x++ {
			cover := min(max(radius+0.5-distance(Spot{float64(x) + 0.5, float64(y) + 0.5}, a, b), 0), 1)
			if cover > 0 && image.Pt(x, y).In(r.img.Rect) {
				r.blend(x, y, c, cover)
			}
		}
	}
}

func (r *raster) blend(x, y int, c color.RGBA, cover float64) {
	old := r.img.RGBAAt(x, y)
	mixed := func(a, b uint8) uint8 { return uint8(float64(a)*(1-cover) + float64(b)*cover + 0.5) }
	r.img.SetRGBA(x, y, color.RGBA{mixed(old.R, c.R), mixed(old.G, c.G), mixed(old.B, c.B), 255})
}

// distance is the distance of p from the segment from a to b.
func distance(p, a, b Spot) float64 {
	dx, dy := b.X-a.X, b.Y-a.Y
	t := 0.0
	if square := dx*dx + dy*dy; square > 0 {
		t = min(max(((p.X-a.X)*dx+(p.Y-a.Y)*dy)/square, 0), 1)
	}
	return math.Hypot(p.X-a.X-t*dx, p.Y-a.Y-t*dy)
}

func (r *raster) Box(from, to Spot, c color.RGBA) {
	box := image.Rect(round(from.X), round(from.Y), round(to.X), round(to.Y))
	draw.Draw(r.img, box, image.NewUniform(c), image.Point{}, draw.Src)
}

func round(x float64) int { return int(math.Round(x)) }

func (r *raster) Text(at Spot, anchor float64, c color.RGBA, words string) {
	d := font.Drawer{Dst: r.img, Src: image.NewUniform(c), Face: basicfont.Face7x13}
	width := float64(d.MeasureString(words)) / 64
	d.Dot = fixed.P(int(at.X-anchor*width), int(at.Y))
	d.DrawString(words)
}

func (r *raster) Encode(w io.Writer) error { return png.Encode(w, r.img) }
