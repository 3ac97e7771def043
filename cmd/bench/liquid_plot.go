package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"image/color"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"
)

// A panel has curves, or bars in groups. A picture has one for each pipeline, side by side below
// one legend.
type panel struct {
	title, x, y string
	log         bool // the scale of y
	curves      []curve
	groups      []string
	bars        []bars
}

// A curve goes through points. Curves of one color are about the same thing.
type curve struct {
	name   string
	color  int
	dots   bool // it was measured
	dashed bool
	points plotter.XYs
}

func (c *curve) add(x, y float64) { c.points = append(c.points, plotter.XY{X: x, Y: y}) }

// bars have a value for each group.
type bars struct {
	name   string
	values plotter.Values
}

// Colors and the shapes of dots, which differ without colors, too.
var (
	colors = []color.Color{
		color.RGBA{11, 60, 111, 255}, color.RGBA{217, 95, 14, 255},
		color.RGBA{118, 200, 178, 255}, color.Gray{70},
	}
	shapes = []draw.GlyphDrawer{
		draw.CircleGlyph{}, draw.BoxGlyph{}, draw.TriangleGlyph{}, draw.CrossGlyph{},
	}
)

const (
	panelWidth, panelHeight = 11 * vg.Centimeter, 8 * vg.Centimeter
	nameHeight              = 16 // of the legend, which has as many columns as there are panels
)

// drawn is a list of contests after which a picture is drawn, of panels that exist then.
func drawn(list []contest, panels *[]panel, dir, name string) []contest {
	draw := ready(func(context.Context) (figures, error) {
		if len(*panels) == 0 {
			return nil, nil
		}
		return nil, drawPanels(*panels, filepath.Join(dir, name+".svg"))
	})
	none := func(results) []row { return nil }
	return append(list, contest{what: name, contenders: []contender{draw}, rounds: 1, rows: none})
}

func drawPanels(panels []panel, path string) error {
	var plots []*plot.Plot
	var legend legend
	for _, p := range panels {
		drawing, err := p.plot(&legend)
		if err != nil {
			return err
		}
		plots = append(plots, drawing)
	}
	rows := (len(legend.entries) + len(plots) - 1) / len(plots)
	svg := vgsvg.New(panelWidth*vg.Length(len(plots)), panelHeight+nameHeight*vg.Length(rows))
	whole := draw.New(svg)
	whole.FillPolygon(color.White, []vg.Point{{}, {X: whole.Max.X}, whole.Max, {Y: whole.Max.Y}})
	tiles := draw.Tiles{
		Rows: 1, Cols: len(plots), PadX: vg.Centimeter, PadLeft: 5, PadRight: 10, PadBottom: 5,
	}
	for k, canvas := range plot.Align([][]*plot.Plot{plots}, tiles, legend.drawOn(whole, rows))[0] {
		plots[k].Draw(canvas)
	}
	var text bytes.Buffer
	_, err := svg.WriteTo(&text)
	// Where the font that everything was measured with is missing, one like it.
	const font = "Liberation Sans"
	drawing := bytes.ReplaceAll(text.Bytes(), []byte(font), []byte(font+", Arial, Helvetica, sans-serif"))
	err = errors.Join(err, os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, drawing, 0o644))
	if err == nil {
		fmt.Fprintln(os.Stderr, "bench: drew", path)
	}
	return err
}

// A legend has each name of a picture once.
type legend struct {
	names   []string
	entries []plot.Legend
}

func (l *legend) add(name string, shown ...plot.Thumbnailer) {
	if slices.Contains(l.names, name) {
		return
	}
	one := plot.NewLegend()
	one.Left, one.Top, one.ThumbnailWidth = true, true, vg.Centimeter
	one.Add(name, shown...)
	l.names, l.entries = append(l.names, name), append(l.entries, one)
}

// drawOn draws the legend at the top, in columns of so many rows, and returns the rest of the
// canvas.
func (l *legend) drawOn(c draw.Canvas, rows int) draw.Canvas {
	for k, one := range l.entries {
		left, down := panelWidth*vg.Length(k/rows)+vg.Centimeter, nameHeight*vg.Length(k%rows)+5
		one.Draw(draw.Crop(c, left, 0, 0, -down))
	}
	return draw.Crop(c, 0, 0, 0, -nameHeight*vg.Length(rows)-15)
}

// plot draws a panel. What was not measured is left out.
func (p *panel) plot(legend *legend) (*plot.Plot, error) {
	plot.DefaultFont.Variant = "Sans"
	to := plot.New()
	to.Title.Text, to.X.Label.Text, to.Y.Label.Text = p.title, p.x, p.y
	to.Title.Padding, to.Y.Min = 5, 0
	if p.log {
		to.Y.Min, to.Y.Scale, to.Y.Tick.Marker = math.Inf(1), plot.LogScale{}, plot.TickerFunc(roundLog)
	}
	to.Add(plotter.NewGrid())
	for _, c := range p.curves {
		if len(c.points) == 0 {
			continue
		}
		line, dots, err := plotter.NewLinePoints(c.points)
		if err != nil {
			return nil, err
		}
		line.Color, line.Width = colors[c.color], 2
		if c.dashed {
			line.Dashes = []vg.Length{6, 4}
		}
		dots.Color, dots.Shape, dots.Radius = colors[c.color], shapes[c.color], 3.5
		shown := []plot.Thumbnailer{line}
		to.Add(line)
		if c.dots {
			to.Add(dots)
			shown = append(shown, dots)
		}
		legend.add(c.name, shown...)
	}
	width := 0.7 * panelWidth / vg.Length(len(p.groups)*(len(p.bars)+1)+1)
	for k, one := range p.bars {
		if len(one.values) == 0 {
			continue
		}
		chart, err := plotter.NewBarChart(one.values, width)
		if err != nil {
			return nil, err
		}
		chart.Color, chart.LineStyle.Width = colors[k], 0
		chart.Offset = width * vg.Length(float64(k)-float64(len(p.bars)-1)/2)
		to.Add(chart)
		legend.add(one.name, chart)
	}
	if len(p.groups) > 0 {
		to.NominalX(p.groups...)
		to.X.Min, to.X.Max = -0.6, float64(len(p.groups))-0.4
	}
	if !p.log {
		to.Y.Max *= 1.05
	}
	return to, nil
}

// roundLog are ticks at 1, 2 and 5 times the powers of ten.
func roundLog(least, most float64) (ticks []plot.Tick) {
	for power := math.Pow10(int(math.Floor(math.Log10(least)))); power <= most; power *= 10 {
		for _, x := range []float64{power, 2 * power, 5 * power} {
			if x >= least && x <= most {
				ticks = append(ticks, plot.Tick{Value: x, Label: strconv.FormatFloat(x, 'g', 6, 64)})
			}
		}
	}
	return ticks
}
