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
	p.X.Tick.Marker, p.Legend.Top = ticks, true
	p.Add(plotter.NewGrid())
	var loading, decoding, slower, loaded, decoded, runs plotter.XYs
	for _, at := range r.Curve {
		loading = append(loading, r.spot(at.RawRatio, at.Loading))
		decoding = append(decoding, r.spot(at.RawRatio, at.Decoding))
		slower = append(slower, r.spot(at.RawRatio, at.Throughput()))
	}
	for _, s := range r.Steps {
		loaded = append(loaded, r.spot(s.RawRatio, s.Loading))
		decoded = append(decoded, r.spot(s.RawRatio, s.Decoding))
	}
	for _, run := range r.Runs {
		runs = append(runs, r.spot(run.RawRatio, run.Throughput))
	}
	answer := plotter.XYs{{X: r.RawRatio, Y: 0}, {X: r.RawRatio, Y: r.top()}}
	err := errors.Join(
		curve(p, "loading", loadingInk, loading, 0), curve(p, "decoding", decodingInk, decoding, 0),
		curve(p, "the slower of both", resultInk, slower, 5),
		dots(p, "", loadingInk, loaded),
		dots(p, "", decodingInk, decoded), dots(p, "a run of the engine", resultInk, runs),
		curve(p, "", ink, answer, 2),
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

// curve adds a line, with dashes of a length unless that is 0.
func curve(p *plot.Plot, name string, ink color.Color, spots plotter.XYs, dash vg.Length) error {
	if len(spots) == 0 {
		return nil
	}
	l, err := plotter.NewLine(spots)
	if err != nil {
		return err
	}
	l.Color, l.Width = ink, 1.6
	if dash > 0 {
		l.Dashes = []vg.Length{dash, dash}
	}
	return add(p, name, l)
}

func dots(p *plot.Plot, name string, ink color.Color, spots plotter.XYs) error {
	if len(spots) == 0 {
		return nil
	}
	s, err := plotter.NewScatter(spots)
	if err != nil {
		return err
	}
	s.GlyphStyle = draw.GlyphStyle{Color: ink, Radius: 3, Shape: draw.CircleGlyph{}}
	return add(p, name, s)
}

func add(p *plot.Plot, name string, shape interface {
	plot.Plotter
	plot.Thumbnailer
}) error {
	p.Add(shape)
	if name != "" {
		p.Legend.Add(name, shape)
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
