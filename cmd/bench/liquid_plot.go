package main

import (
	"errors"
	"fmt"
	"image/color"
	"os"
	"path/filepath"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// The two figures of Liquid's paper: throughput over the mix, and speedup of each way over
// the page cache.

var colors = []color.RGBA{{31, 119, 180, 255}, {214, 100, 20, 255}, {44, 140, 44, 255}, {130, 80, 170, 255}}

// draw writes both figures in two formats.
func (s *setup) draw(results []mixResult) error {
	if err := os.MkdirAll(s.plots, 0o755); err != nil {
		return err
	}
	mixes, err := mixPlots(results)
	if err != nil {
		return err
	}
	bars, err := barPlot(results)
	if err != nil {
		return err
	}
	for _, format := range []string{"svg", "png"} {
		err := errors.Join(
			writePlots(filepath.Join(s.plots, "throughput-over-the-mix."+format), format, mixes),
			writePlots(filepath.Join(s.plots, "normalised-throughput."+format), format, []*plot.Plot{bars}),
		)
		if err != nil {
			return err
		}
	}
	return nil
}

// writePlots writes plots side by side.
func writePlots(path, format string, plots []*plot.Plot) error {
	picture, err := draw.NewFormattedCanvas(32*vg.Centimeter, 13*vg.Centimeter, format)
	if err != nil {
		return err
	}
	tiles := draw.Tiles{Rows: 1, Cols: len(plots), PadX: vg.Centimeter}
	for k, canvas := range plot.Align([][]*plot.Plot{plots}, tiles, draw.New(picture))[0] {
		plots[k].Draw(canvas)
	}
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	_, err = picture.WriteTo(f)
	if err := errors.Join(err, f.Close()); err != nil {
		return err
	}
	fmt.Fprintln(os.Stderr, "bench: drew", path)
	return nil
}

// mixPlots makes a diagram for each pipeline with a line for each bandwidth.
func mixPlots(results []mixResult) (plots []*plot.Plot, err error) {
	var ticks plot.ConstantTicks
	for tenth := range tenths + 1 {
		raw := float64(tenth) / tenths
		ticks = append(ticks, plot.Tick{Value: raw, Label: mixName(raw)})
	}
	for _, pl := range pipelines {
		p := plot.New()
		p.Title.Text, p.Y.Label.Text = pl.name, "images/s"
		p.X.Label.Text = "encoded : raw images; the profiler's choice is dashed"
		p.X.Tick.Marker, p.Y.Min, p.Legend.Top = ticks, 0, true
		p.Add(plotter.NewGrid())
		lines := 0
		for _, r := range results {
			if r.pipeline.name == pl.name {
				err = errors.Join(err, addMixes(p, r, colors[lines]))
				lines++
			}
		}
		plots = append(plots, p)
	}
	return plots, err
}

func addMixes(p *plot.Plot, r mixResult, ink color.Color) error {
	var spots plotter.XYs
	for _, one := range r.mixes {
		spots = append(spots, plotter.XY{X: one.raw, Y: figureOf(one.rates).Value})
	}
	line, dots, err := plotter.NewLinePoints(spots)
	if err != nil {
		return err
	}
	chosen, err := plotter.NewLine(plotter.XYs{{X: r.chosen.raw}, {X: r.chosen.raw, Y: figureOf(r.chosen.rates).Value}})
	if err != nil {
		return err
	}
	line.Color, dots.Color, chosen.Color = ink, ink, ink
	dots.Shape, chosen.Dashes = draw.CircleGlyph{}, []vg.Length{vg.Points(4), vg.Points(3)}
	p.Add(line, dots, chosen)
	p.Legend.Add(fmt.Sprintf("%d MB/s", r.bandwidth), line)
	return nil
}

// barPlot shows the speed of each way relative to the page cache or, if that could not be
// measured, to the static cache.
func barPlot(results []mixResult) (*plot.Plot, error) {
	p := plot.New()
	p.Title.Text, p.Y.Min, p.Legend.Top = "images/s over the page cache", 0, true
	var groups []string
	ways := make([]plotter.Values, 4)
	for _, r := range results {
		base := r.pageCache
		if base == nil {
			base, p.Title.Text = r.static, "images/s over a static cache"
		}
		for k, one := range []*rival{r.pageCache, r.static, r.mixes[0], r.chosen} {
			bar := 0.0
			if one != nil {
				bar = one.over(base).Value
			}
			ways[k] = append(ways[k], bar)
		}
		groups = append(groups, fmt.Sprintf("%s, %d MB/s, mix %s", r.pipeline.name, r.bandwidth, mixName(r.chosen.raw)))
	}
	if len(groups) == 0 {
		return p, nil
	}
	p.NominalX(groups...)
	width := 20 * vg.Centimeter / vg.Length(len(groups)*len(ways))
	for k, name := range []string{"page cache", "static cache (CoorDL)", "constant cache", "constant cache, the profiler's mix"} {
		bars, err := plotter.NewBarChart(ways[k], width)
		if err != nil {
			return nil, err
		}
		bars.Color, bars.Offset, bars.LineStyle.Width = colors[k], width*(vg.Length(k)-1.5), 0
		var figures plotter.XYLabels
		for g, bar := range ways[k] {
			figures.XYs = append(figures.XYs, plotter.XY{X: float64(g), Y: bar})
			figures.Labels = append(figures.Labels, fmt.Sprintf("%.2f", bar))
		}
		labels, err := plotter.NewLabels(figures)
		if err != nil {
			return nil, err
		}
		labels.Offset = vg.Point{X: bars.Offset - width/2, Y: vg.Points(2)}
		p.Add(bars, labels)
		p.Legend.Add(name, bars)
	}
	p.Y.Max *= 1.3 // room for the legend
	return p, nil
}
