package main

import (
	"errors"
	"fmt"
	"image/color"
	"os"
	"path/filepath"

	"github.com/batchfs/batchfs/engine/profile/plot"
)

var (
	ink    = color.RGBA{40, 40, 40, 255}
	faint  = color.RGBA{222, 222, 222, 255}
	colors = []color.RGBA{{31, 119, 180, 255}, {214, 100, 20, 255}, {44, 140, 44, 255}}
)

// draw writes the figure of Liquid's paper: throughput over the mix, a diagram for each
// pipeline with a line for each bandwidth.
func (s *setup) draw(results []mixResult) error {
	if err := os.MkdirAll(s.plots, 0o755); err != nil {
		return err
	}
	c, err := plot.New(plot.SVG, 1200, 480)
	if err != nil {
		return err
	}
	for k, pl := range pipelines {
		drawPipeline(c, 600*float64(k), pl.name, results)
	}
	path := filepath.Join(s.plots, "throughput-over-the-mix.svg")
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	if err := errors.Join(c.Encode(f), f.Close()); err != nil {
		return err
	}
	fmt.Fprintln(os.Stderr, "bench: drew", path)
	return nil
}

// drawPipeline draws one diagram, whose left edge is at x.
func drawPipeline(c plot.Canvas, x float64, name string, results []mixResult) {
	left, right, top, bottom, most := x+80, x+570, 80.0, 410.0, 0.0
	for _, r := range results {
		for _, one := range r.mixes {
			if r.pipeline.name == name {
				most = max(most, 1.1*median(one.rates))
			}
		}
	}
	if most == 0 {
		return
	}
	at := func(raw, rate float64) plot.Spot {
		return plot.At(left+raw*(right-left), bottom-rate/most*(bottom-top))
	}
	step := plot.Step(most / 6)
	for v := 0.0; v <= most; v += step {
		c.Line([]plot.Spot{at(0, v), at(1, v)}, faint, 1, false)
		c.Text(plot.At(left-8, at(0, v).Y+4), 1, ink, fmt.Sprintf("%.6g", v))
	}
	for tenth := range tenths + 1 {
		raw := float64(tenth) / tenths
		c.Line([]plot.Spot{at(raw, 0), at(raw, most)}, faint, 1, false)
		c.Text(plot.At(at(raw, 0).X, bottom+18), 0.5, ink, mixName(raw))
	}
	c.Line([]plot.Spot{at(0, most), at(0, 0), at(1, 0)}, ink, 1, false)
	c.Text(plot.At(left, top-14), 0, ink, name)
	c.Text(plot.At(left-8, top-14), 1, ink, "images/s")
	c.Text(plot.At((left+right)/2, bottom+44), 0.5, ink, "encoded : raw images; the profiler's choice is dashed")
	k := 0
	for _, r := range results {
		if r.pipeline.name != name {
			continue
		}
		var line []plot.Spot
		for _, one := range r.mixes {
			line = append(line, at(one.raw, median(one.rates)))
			c.Disc(line[len(line)-1], 3.5, colors[k])
		}
		c.Line(line, colors[k], 2, false)
		c.Line([]plot.Spot{at(r.chosen.raw, 0), at(r.chosen.raw, median(r.chosen.rates))}, colors[k], 1.5, true)
		edge := left + 105*float64(k)
		c.Box(plot.At(edge, 31), plot.At(edge+12, 41), colors[k])
		c.Text(plot.At(edge+18, 41), 0, ink, fmt.Sprintf("%d MB/s", r.bandwidth))
		k++
	}
}
