package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/plotutil"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"
)

// drawMixes writes the figure of Liquid's paper, throughput over the mix: a diagram for each pipeline,
// side by side, with a line for each bandwidth.
func drawMixes(results []*mixResult, dir string) error {
	var plots []*plot.Plot
	lines := map[string]int{}
	for _, r := range results {
		name := r.pipeline.name
		if lines[name] == 0 {
			plots = append(plots, newPlot(name))
		}
		if err := r.draw(plots[len(plots)-1], lines[name]); err != nil {
			return err
		}
		lines[name]++
	}
	picture := vgsvg.New(32*vg.Centimeter, 13*vg.Centimeter)
	tiles := draw.Tiles{Rows: 1, Cols: len(plots), PadX: vg.Centimeter}
	for k, canvas := range plot.Align([][]*plot.Plot{plots}, tiles, draw.New(picture))[0] {
		plots[k].Draw(canvas)
	}
	var text bytes.Buffer
	_, err := picture.WriteTo(&text)
	path := filepath.Join(dir, "throughput-over-the-mix.svg")
	if err := errors.Join(err, os.MkdirAll(dir, 0o755), os.WriteFile(path, text.Bytes(), 0o644)); err != nil {
		return err
	}
	fmt.Fprintln(os.Stderr, "bench: drew", path)
	return nil
}

func newPlot(title string) *plot.Plot {
	var ticks plot.ConstantTicks
	for tenth := range tenths + 1 {
		raw := float64(tenth) / tenths
		ticks = append(ticks, plot.Tick{Value: raw, Label: mixName(raw)})
	}
	p := plot.New()
	p.Title.Text, p.Y.Label.Text = title, "images/s"
	p.X.Label.Text = "encoded : raw images; the profiler's choice is dashed"
	p.X.Tick.Marker, p.Y.Min, p.Legend.Top = ticks, 0, true
	p.Add(plotter.NewGrid())
	return p
}

// draw adds the lines of one bandwidth to a plot, in its own color.
func (r *mixResult) draw(p *plot.Plot, color int) error {
	var spots plotter.XYs
	for _, one := range r.mixes() {
		spots = append(spots, plotter.XY{X: one.raw, Y: one.rates.median()})
	}
	line, dots, err := plotter.NewLinePoints(spots)
	if err != nil {
		return err
	}
	chosen, err := plotter.NewLine(plotter.XYs{{X: r.chosen().raw}, {X: r.chosen().raw, Y: r.chosen().rates.median()}})
	if err != nil {
		return err
	}
	ink := plotutil.Color(color)
	line.Color, dots.Color, chosen.Color = ink, ink, ink
	dots.Shape, chosen.Dashes = draw.CircleGlyph{}, plotutil.Dashes(1)
	p.Add(line, dots, chosen)
	p.Legend.Add(fmt.Sprintf("%d MB/s", r.bandwidth), line)
	return nil
}
