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

var colors = []color.RGBA{{31, 119, 180, 255}, {214, 100, 20, 255}, {44, 140, 44, 255}}

// draw writes the figure of Liquid's paper, throughput over the mix, in two formats.
func (s *setup) draw(results []mixResult) error {
	if err := os.MkdirAll(s.plots, 0o755); err != nil {
		return err
	}
	mixes, err := mixPlots(results)
	if err != nil {
		return err
	}
	for _, format := range []string{"svg", "png"} {
		if err := writePlots(filepath.Join(s.plots, "throughput-over-the-mix."+format), format, mixes); err != nil {
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
		spots = append(spots, plotter.XY{X: one.raw, Y: median(one.rates)})
	}
	line, dots, err := plotter.NewLinePoints(spots)
	if err != nil {
		return err
	}
	chosen, err := plotter.NewLine(plotter.XYs{{X: r.chosen.raw}, {X: r.chosen.raw, Y: median(r.chosen.rates)}})
	if err != nil {
		return err
	}
	line.Color, dots.Color, chosen.Color = ink, ink, ink
	dots.Shape, chosen.Dashes = draw.CircleGlyph{}, []vg.Length{vg.Points(4), vg.Points(3)}
	p.Add(line, dots, chosen)
	p.Legend.Add(fmt.Sprintf("%d MB/s", r.bandwidth), line)
	return nil
}
