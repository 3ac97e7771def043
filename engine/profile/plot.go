package profile

import (
	"errors"
	"fmt"
	"image/color"
	"io"
	"math"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	_ "gonum.org/v1/plot/vg/vgimg" // png
	_ "gonum.org/v1/plot/vg/vgsvg" // svg
)

var (
	ink         = color.RGBA{40, 40, 40, 255}
	loadingInk  = color.RGBA{31, 119, 180, 255}
	decodingInk = color.RGBA{214, 100, 20, 255}
	resultInk   = color.RGBA{44, 140, 44, 255}
)

// Plot draws loading, decoding and the resulting throughput over the mix: lines for the model,
// dots for measurements, and a line at the answer. format is svg or png.
func (r *Result) Plot(w io.Writer, format string) error {
	p := plot.New()
	p.Title.Text = fmt.Sprintf("best: %.0f %% raw, %.0f %% encoded, %.4g images/s", 100*r.RawRatio, 100*r.EncodedRatio, float64(r.Verified))
	p.X.Label.Text, p.Y.Label.Text = "encoded : raw images", "images/s"
	var ticks plot.ConstantTicks
	for i := range tenths + 1 {
		ticks = append(ticks, plot.Tick{Value: float64(i) / tenths, Label: fmt.Sprintf("%d:%d", tenths-i, i)})
	}
	p.X.Tick.Marker = ticks
	p.Add(plotter.NewGrid())
	p.Legend.Top = true
	err := errors.Join(
		r.curve(p, "loading", loadingInk, func(p Point) Rate { return p.Loading }, true),
		r.curve(p, "decoding", decodingInk, func(p Point) Rate { return p.Decoding }, true),
		r.curve(p, "the slower of both", resultInk, Point.Throughput, false),
		r.runs(p),
	)
	if err != nil {
		return err
	}
	p.X.Min, p.X.Max, p.Y.Min, p.Y.Max = 0, 1, 0, r.top()
	picture, err := p.WriterTo(23*vg.Centimeter, 14*vg.Centimeter, format)
	if err != nil {
		return err
	}
	_, err = picture.WriteTo(w)
	return err
}

// curve adds a line for the model and, if asked, dots for the measurements.
func (r *Result) curve(p *plot.Plot, name string, ink color.Color, rate func(Point) Rate, dots bool) error {
	var model, measured plotter.XYs
	for _, at := range r.Curve {
		model = append(model, r.spot(at.RawRatio, rate(at)))
	}
	for _, s := range r.Steps {
		measured = append(measured, r.spot(s.RawRatio, rate(s.Point)))
	}
	if len(model) > 0 {
		line, err := plotter.NewLine(model)
		if err != nil {
			return err
		}
		line.Color, line.Width = ink, vg.Points(1.6)
		if !dots {
			line.Dashes = []vg.Length{vg.Points(5), vg.Points(4)}
		}
		p.Add(line)
		p.Legend.Add(name, line)
	}
	if !dots || len(measured) == 0 {
		return nil
	}
	return scatter(p, "", ink, measured)
}

// runs adds dots for the runs of the engine, and the answer.
func (r *Result) runs(p *plot.Plot) error {
	answer, err := plotter.NewLine(plotter.XYs{{X: r.RawRatio, Y: 0}, {X: r.RawRatio, Y: r.top()}})
	if err != nil {
		return err
	}
	answer.Color, answer.Dashes = ink, []vg.Length{vg.Points(2), vg.Points(2)}
	p.Add(answer)
	var dots plotter.XYs
	for _, run := range r.Runs {
		dots = append(dots, r.spot(run.RawRatio, run.Throughput))
	}
	if len(dots) == 0 {
		return nil
	}
	return scatter(p, "a run of the engine", resultInk, dots)
}

func scatter(p *plot.Plot, name string, ink color.Color, spots plotter.XYs) error {
	s, err := plotter.NewScatter(spots)
	if err != nil {
		return err
	}
	s.GlyphStyle = draw.GlyphStyle{Color: ink, Radius: vg.Points(3), Shape: draw.CircleGlyph{}}
	p.Add(s)
	if name != "" {
		p.Legend.Add(name, s)
	}
	return nil
}

// spot is where a rate is drawn: far outside of the picture if it is infinite.
func (r *Result) spot(raw float64, rate Rate) plotter.XY {
	return plotter.XY{X: raw, Y: min(float64(rate), 100*r.top())}
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
