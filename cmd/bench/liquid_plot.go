package main

import (
	"errors"
	"fmt"
	"image/color"
	"os"
	"path/filepath"

	"github.com/batchfs/batchfs/engine/profile/plot"
)

// The two figures of Liquid's paper: throughput over the mix, and speedup of each way over
// the page cache.

var (
	ink    = color.RGBA{40, 40, 40, 255}
	faint  = color.RGBA{222, 222, 222, 255}
	colors = []color.RGBA{{31, 119, 180, 255}, {214, 100, 20, 255}, {44, 140, 44, 255}, {130, 80, 170, 255}}
)

// A panel is a diagram within a picture: its corners in pixels, and the value at its top.
type panel struct{ left, top, right, bottom, most float64 }

func (p panel) y(value float64) float64 { return p.bottom - value/p.most*(p.bottom-p.top) }

// axes draws the grid lines, the labels and the title.
func (p panel) axes(c plot.Canvas, title, unit string) {
	step := plot.Step(p.most / 6)
	for v := 0.0; v <= p.most; v += step {
		c.Line([]plot.Spot{plot.At(p.left, p.y(v)), plot.At(p.right, p.y(v))}, faint, 1, false)
		c.Text(plot.At(p.left-8, p.y(v)+4), 1, ink, fmt.Sprintf("%.6g", v))
	}
	c.Line([]plot.Spot{plot.At(p.left, p.top), plot.At(p.left, p.bottom), plot.At(p.right, p.bottom)}, ink, 1, false)
	c.Text(plot.At(p.left, p.top-14), 0, ink, title)
	c.Text(plot.At(p.left-8, p.top-14), 1, ink, unit)
}

// draw writes both pictures in both formats.
func (s *setup) draw(results []mixResult) error {
	if err := os.MkdirAll(s.plots, 0o755); err != nil {
		return err
	}
	for _, picture := range []struct {
		name          string
		width, height int
		draw          func(plot.Canvas, []mixResult)
	}{
		{"throughput-over-the-mix", 1200, 480, drawMixes},
		{"normalised-throughput", 1200, 480, drawBars},
	} {
		for _, format := range []plot.Format{plot.SVG, plot.PNG} {
			c, err := plot.New(format, picture.width, picture.height)
			if err != nil {
				return err
			}
			picture.draw(c, results)
			path := filepath.Join(s.plots, picture.name+"."+string(format))
			f, err := os.Create(path)
			if err != nil {
				return err
			}
			if err := errors.Join(c.Encode(f), f.Close()); err != nil {
				return err
			}
			fmt.Fprintln(os.Stderr, "bench: drew", path)
		}
	}
	return nil
}

// drawMixes draws a diagram for each pipeline with a line for each bandwidth.
func drawMixes(c plot.Canvas, results []mixResult) {
	const width = 600.0
	byName := map[string][]mixResult{}
	for _, r := range results {
		byName[r.pipeline.name] = append(byName[r.pipeline.name], r)
	}
	for k, pl := range pipelines {
		list := byName[pl.name]
		p := panel{left: 80 + float64(k)*width, right: 570 + float64(k)*width, top: 80, bottom: 410}
		for _, r := range list {
			for _, one := range r.mixes {
				p.most = max(p.most, 1.1*figureOf(one.rates).Value)
			}
		}
		if p.most == 0 {
			continue
		}
		x := func(raw float64) float64 { return p.left + raw*(p.right-p.left) }
		p.axes(c, pl.name, "images/s")
		for tenth := range tenths + 1 {
			raw := float64(tenth) / tenths
			c.Line([]plot.Spot{plot.At(x(raw), p.top), plot.At(x(raw), p.bottom)}, faint, 1, false)
			c.Text(plot.At(x(raw), p.bottom+18), 0.5, ink, mixName(raw))
		}
		c.Text(plot.At((p.left+p.right)/2, p.bottom+44), 0.5, ink, "encoded : raw images; the profiler's choice is dashed")
		for i, r := range list {
			var line []plot.Spot
			for _, one := range r.mixes {
				at := plot.At(x(one.raw), p.y(figureOf(one.rates).Value))
				line = append(line, at)
				c.Disc(at, 3.5, colors[i])
			}
			c.Line(line, colors[i], 2, false)
			c.Line([]plot.Spot{plot.At(x(r.chosen.raw), p.bottom), plot.At(x(r.chosen.raw), p.y(figureOf(r.chosen.rates).Value))}, colors[i], 1.5, true)
			legend(c, i, 0.35*width*float64(i)/2+p.left, 40, fmt.Sprintf("%d MB/s", r.bandwidth))
		}
	}
}

// drawBars draws the speed of each way relative to the page cache or, if that could not be
// measured, to the static cache.
func drawBars(c plot.Canvas, results []mixResult) {
	p := panel{left: 60, right: 1170, top: 80, bottom: 410}
	title := "over the page cache"
	var groups [][]float64
	for _, r := range results {
		base := r.pageCache
		if base == nil {
			base, title = r.static, "over a static cache"
		}
		var bars []float64
		for _, one := range []*rival{r.pageCache, r.static, r.mixes[0], r.chosen} {
			bar := 0.0
			if one != nil {
				bar = one.over(base).Value
			}
			bars, p.most = append(bars, bar), max(p.most, 1.15*bar)
		}
		groups = append(groups, bars)
	}
	if len(groups) == 0 {
		return
	}
	p.axes(c, "", "x")
	c.Text(plot.At(p.left, 28), 0, ink, "images/s "+title)
	for k, name := range []string{"page cache", "static cache (CoorDL)", "constant cache", "constant cache, the profiler's mix"} {
		legend(c, k, p.left+230*float64(k), 52, name)
	}
	width := (p.right - p.left) / float64(len(groups))
	for g, bars := range groups {
		left := p.left + width*(float64(g)+0.1)
		each := width * 0.8 / float64(len(bars))
		for k, bar := range bars {
			x := left + each*float64(k)
			c.Box(plot.At(x+2, p.y(bar)), plot.At(x+each-2, p.bottom), colors[k])
			c.Text(plot.At(x+each/2, p.y(bar)-5), 0.5, ink, fmt.Sprintf("%.2f", bar))
		}
		r := results[g]
		c.Text(plot.At(left+width*0.4, p.bottom+18), 0.5, ink, fmt.Sprintf("%s, %d MB/s", r.pipeline.name, r.bandwidth))
		c.Text(plot.At(left+width*0.4, p.bottom+36), 0.5, ink, "mix "+mixName(r.chosen.raw))
	}
}

func legend(c plot.Canvas, k int, x, y float64, words string) {
	c.Box(plot.At(x, y-9), plot.At(x+12, y+1), colors[k])
	c.Text(plot.At(x+18, y+1), 0, ink, words)
}
