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

// drawn is a list after whose last contest a picture is drawn, of plots that exist then, side by
// side.
func drawn(list []contest, plots *[]*plot.Plot, dir, name string) []contest {
	if len(list) == 0 {
		return list
	}
	last := &list[len(list)-1]
	before := last.within
	last.within = func(work func() error) error {
		if before == nil {
			before = func(work func() error) error { return work() }
		}
		if err := before(work); err != nil || len(*plots) == 0 {
			return err
		}
		return drawPlots(*plots, filepath.Join(dir, name+".svg"))
	}
	return list
}

func drawPlots(plots []*plot.Plot, path string) error {
	picture := vgsvg.New(vg.Length(16*len(plots))*vg.Centimeter, 13*vg.Centimeter)
	tiles := draw.Tiles{Rows: 1, Cols: len(plots), PadX: vg.Centimeter}
	for k, canvas := range plot.Align([][]*plot.Plot{plots}, tiles, draw.New(picture))[0] {
		plots[k].Draw(canvas)
	}
	var text bytes.Buffer
	_, err := picture.WriteTo(&text)
	err = errors.Join(err, os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, text.Bytes(), 0o644))
	if err != nil {
		return err
	}
	fmt.Fprintln(os.Stderr, "bench: drew", path)
	return nil
}

// roomForLegend is the height of a plot over that of what it shows.
const roomForLegend = 1.3

func newPlot(title, y string) *plot.Plot {
	p := plot.New()
	p.Title.Text, p.Y.Label.Text = title, y
	p.Y.Min, p.Legend.Top = 0, true
	p.Add(plotter.NewGrid())
	return p
}

// A curve goes through points.
type curve struct {
	name   string
	color  int
	dots   bool // it was measured
	dashed bool
	points plotter.XYs
}

func (c *curve) add(x, y float64) { c.points = append(c.points, plotter.XY{X: x, Y: y}) }

// curvesOf is a plot of curves.
func curvesOf(title, y string, curves []curve) *plot.Plot {
	p := newPlot(title, y)
	for _, c := range curves {
		path, dots, err := plotter.NewLinePoints(c.points)
		if err != nil || len(c.points) == 0 {
			continue // what it shows was not measured
		}
		path.Color, dots.Color, dots.Shape = plotutil.Color(c.color), plotutil.Color(c.color), draw.CircleGlyph{}
		p.Add(path)
		if c.dots {
			p.Add(dots)
		}
		if c.dashed {
			path.Dashes = plotutil.Dashes(1)
		}
		p.Legend.Add(c.name, path)
	}
	p.Y.Max *= roomForLegend
	return p
}

// bars have a value for each group.
type bars struct {
	name   string
	values plotter.Values
}

// barsOf is a plot of bars, side by side in each group.
func barsOf(title, y string, groups []string, list []bars) *plot.Plot {
	p := newPlot(title, y)
	width := vg.Length(10/float64(len(groups)*(len(list)+1))) * vg.Centimeter
	for k, one := range list {
		chart, err := plotter.NewBarChart(one.values, width)
		if err != nil {
			continue // the same
		}
		chart.Color, chart.LineStyle.Width = plotutil.Color(k), 0
		chart.Offset = width * vg.Length(float64(k)-float64(len(list)-1)/2)
		p.Add(chart)
		p.Legend.Add(one.name, chart)
	}
	p.NominalX(groups...)
	p.Y.Max *= roomForLegend
	return p
}
