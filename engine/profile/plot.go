package profile

import (
	"fmt"
	"image/color"
	"io"
	"math"

	"github.com/batchfs/batchfs/engine/profile/plot"
)

// The picture's geometry, in pixels.
const (
	plotWidth  = 860
	plotHeight = 500
	plotLeft   = 80
	plotRight  = 830
	plotTop    = 90
	plotBottom = 430
)

var (
	ink         = color.RGBA{40, 40, 40, 255}
	faint       = color.RGBA{222, 222, 222, 255}
	loadingInk  = color.RGBA{31, 119, 180, 255}
	decodingInk = color.RGBA{214, 100, 20, 255}
	resultInk   = color.RGBA{44, 140, 44, 255}
)

// Plot draws loading, decoding and the resulting throughput over the mix: lines for the
// model, dots for measurements, and the answer.
func (r *Result) Plot(w io.Writer, f plot.Format) error {
	c, err := plot.New(f, plotWidth, plotHeight)
	if err != nil {
		return err
	}
	r.draw(c)
	return c.Encode(w)
}

// scale converts figures to points.
type scale struct{ top float64 }

func (s scale) at(raw float64, rate Rate) plot.Spot {
	return plot.At(plotLeft+raw*(plotRight-plotLeft), plotBottom-float64(rate)/s.top*(plotBottom-plotTop))
}

func (r *Result) draw(c plot.Canvas) {
	s := scale{r.top()}
	s.axes(c)
	curves := []struct {
		name string
		ink  color.RGBA
		rate func(Point) Rate
	}{
		{"loading", loadingInk, func(p Point) Rate { return p.Loading }},
		{"decoding", decodingInk, func(p Point) Rate { return p.Decoding }},
		{"the slower of both", resultInk, Point.Throughput},
	}
	for k, curve := range curves {
		for _, part := range s.visible(r.Curve, curve.rate) {
			c.Line(part, curve.ink, 2.2, k == 2)
		}
		x := float64(plotLeft + 190*k)
		c.Line([]plot.Spot{plot.At(x, 51), plot.At(x+26, 51)}, curve.ink, 2.2, k == 2)
		c.Text(plot.At(x+32, 55), 0, ink, curve.name)
	}
	c.Disc(plot.At(plotLeft+590, 51), 4.5, resultInk)
	c.Text(plot.At(plotLeft+600, 55), 0, ink, "a run of the engine")
	for _, step := range r.Steps {
		for _, curve := range curves[:2] {
			if rate := curve.rate(step.Point); float64(rate) <= s.top {
				c.Disc(s.at(step.RawRatio, rate), 3.5, curve.ink)
			}
		}
	}
	for _, run := range r.Runs {
		if float64(run.Throughput) <= s.top {
			c.Disc(s.at(run.RawRatio, run.Throughput), 4.5, resultInk)
		}
	}
	x := s.at(r.RawRatio, 0).X
	c.Line([]plot.Spot{plot.At(x, plotTop), plot.At(x, plotBottom)}, ink, 1, true)
	c.Text(plot.At(plotLeft, 28), 0, ink, fmt.Sprintf("best: %.0f %% raw, %.0f %% encoded, %.4g images/s",
		100*r.RawRatio, 100*r.EncodedRatio, float64(r.Verified)))
}

// top is the highest rate shown. Everything of interest lies well below it.
func (r *Result) top() float64 {
	most := 0.0
	for _, p := range r.Curve {
		if t := float64(p.Throughput()); !math.IsInf(t, 0) {
			most = max(most, t)
		}
	}
	for _, run := range r.Runs {
		most = max(most, float64(run.Throughput))
	}
	if most <= 0 {
		return 1
	}
	return 1.7 * most
}

func (s scale) axes(c plot.Canvas) {
	for i := range tenths + 1 {
		x := s.at(float64(i)/tenths, 0).X
		c.Line([]plot.Spot{plot.At(x, plotTop), plot.At(x, plotBottom)}, faint, 1, false)
		c.Text(plot.At(x, plotBottom+18), 0.5, ink, fmt.Sprintf("%d:%d", tenths-i, i))
	}
	step := plot.Step(s.top / 6)
	for v := 0.0; v <= s.top; v += step {
		y := s.at(0, Rate(v)).Y
		c.Line([]plot.Spot{plot.At(plotLeft, y), plot.At(plotRight, y)}, faint, 1, false)
		c.Text(plot.At(plotLeft-8, y+4), 1, ink, fmt.Sprintf("%.6g", v))
	}
	c.Line([]plot.Spot{plot.At(plotLeft, plotTop), plot.At(plotLeft, plotBottom), plot.At(plotRight, plotBottom)}, ink, 1, false)
	c.Text(plot.At((plotLeft+plotRight)/2, plotBottom+44), 0.5, ink, "encoded : raw images")
	c.Text(plot.At(plotLeft-8, plotTop-16), 1, ink, "images/s")
}

// visible returns the parts of a curve within the picture, cut where it crosses the top.
func (s scale) visible(points []Point, rate func(Point) Rate) (parts [][]plot.Spot) {
	var part []plot.Spot
	for i, p := range points {
		here := float64(rate(p))
		if i > 0 {
			before := float64(rate(points[i-1]))
			if (before > s.top) != (here > s.top) {
				part = append(part, s.at(s.leaves(points[i-1].RawRatio, before, p.RawRatio, here), Rate(s.top)))
			}
		}
		if here <= s.top {
			part = append(part, s.at(p.RawRatio, rate(p)))
		} else if len(part) > 0 {
			parts, part = append(parts, part), nil
		}
	}
	if len(part) > 1 {
		parts = append(parts, part)
	}
	return parts
}

// leaves returns where a straight line between two points crosses the top.
func (s scale) leaves(x0, y0, x1, y1 float64) float64 {
	switch {
	case math.IsInf(y0, 0):
		return x1
	case math.IsInf(y1, 0):
		return x0
	}
	return x0 + (x1-x0)*(s.top-y0)/(y1-y0)
}
