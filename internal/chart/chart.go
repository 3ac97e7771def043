// Package chart draws diagrams of curves and of bars side by side below one legend, as SVG or PNG.
package chart

import (
	"bytes"
	"image/color"
	"io"
	"math"
	"slices"
	"strconv"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	_ "gonum.org/v1/plot/vg/vgimg" // png
	_ "gonum.org/v1/plot/vg/vgsvg" // svg
)

// A Diagram has curves, or bars in groups.
type Diagram struct {
	Title, X, Y string
	Log         bool // the scale of Y
	Curves      []Curve
	Groups      []string // names of groups of bars; each bar has one value per group
	Bars        []Bars
	Ticks       []plot.Tick // of X; if empty, evenly spaced ticks
	Top         float64     // the largest Y; 0: as large as the curves and bars need
}

// A Curve is a line, some dots, or both. Curves of one color belong to the same subject.
type Curve struct {
	Name   string // in the legend, unless ""
	Color  int
	Line   Line
	Dots   bool
	Points plotter.XYs
}

// A Line is how the points of a Curve are connected.
type Line int

// The kinds of lines.
const (
	Solid Line = iota
	Dashed
	None
)

// Add adds a point.
func (c *Curve) Add(x, y float64) { c.Points = append(c.Points, plotter.XY{X: x, Y: y}) }

// Bars have one value per group.
type Bars struct {
	Name   string
	Values plotter.Values
}

// Colors, and shapes of dots, which tell curves apart even without color.
var (
	colors = []color.Color{
		color.RGBA{11, 60, 111, 255}, color.RGBA{217, 95, 14, 255},
		color.RGBA{118, 200, 178, 255}, color.Gray{70},
	}
	shapes = []draw.GlyphDrawer{
		draw.CircleGlyph{}, draw.BoxGlyph{}, draw.TriangleGlyph{}, draw.CrossGlyph{},
	}
)

// nameHeight is the height of a name in the legend, which has as many columns as there are
// diagrams.
const nameHeight = 16

// Draw draws diagrams of some width and height, in centimeters. format is svg or png.
func Draw(to io.Writer, format string, width, height float64, diagrams ...Diagram) error {
	plot.DefaultFont.Variant = "Sans"
	column := vg.Length(width) * vg.Centimeter
	var plots []*plot.Plot
	var legend legend
	for _, d := range diagrams {
		drawing, err := d.plot(&legend, column)
		if err != nil {
			return err
		}
		plots = append(plots, drawing)
	}
	rows := (len(legend.entries) + len(plots) - 1) / len(plots)
	high := vg.Length(height)*vg.Centimeter + nameHeight*vg.Length(rows)
	picture, err := draw.NewFormattedCanvas(column*vg.Length(len(plots)), high, format)
	if err != nil {
		return err
	}
	whole := draw.New(picture)
	whole.FillPolygon(color.White, []vg.Point{{}, {X: whole.Max.X}, whole.Max, {Y: whole.Max.Y}})
	tiles := draw.Tiles{
		Rows: 1, Cols: len(plots), PadX: vg.Centimeter, PadLeft: 5, PadRight: 10, PadBottom: 5,
	}
	for k, canvas := range plot.Align([][]*plot.Plot{plots}, tiles, legend.drawOn(whole, rows, column))[0] {
		plots[k].Draw(canvas)
	}
	var file bytes.Buffer
	if _, err := picture.WriteTo(&file); err != nil {
		return err
	}
	content := file.Bytes()
	if format == "svg" { // if the measured font is missing, use a similar one
		const font = "Liberation Sans"
		content = bytes.ReplaceAll(content, []byte(font), []byte(font+", Arial, Helvetica, sans-serif"))
	}
	_, err = to.Write(content)
	return err
}

// A legend lists each name in a picture once.
type legend struct {
	names   []string
	entries []plot.Legend
}

func (l *legend) add(name string, shown ...plot.Thumbnailer) {
	if name == "" || slices.Contains(l.names, name) {
		return
	}
	one := plot.NewLegend()
	one.Left, one.Top, one.ThumbnailWidth = true, true, vg.Centimeter
	one.Add(name, shown...)
	l.names, l.entries = append(l.names, name), append(l.entries, one)
}

// drawOn draws the legend at the top, in columns of rows rows, and returns the rest of the canvas.
func (l *legend) drawOn(c draw.Canvas, rows int, column vg.Length) draw.Canvas {
	for k, one := range l.entries {
		left, down := column*vg.Length(k/rows)+vg.Centimeter, nameHeight*vg.Length(k%rows)+5
		one.Draw(draw.Crop(c, left, 0, 0, -down))
	}
	return draw.Crop(c, 0, 0, 0, -nameHeight*vg.Length(rows)-15)
}

// plot draws a diagram. It leaves out curves without points and bars without values.
func (d *Diagram) plot(legend *legend, width vg.Length) (*plot.Plot, error) {
	to := plot.New()
	to.Title.Text, to.X.Label.Text, to.Y.Label.Text = d.Title, d.X, d.Y
	to.Title.Padding, to.Y.Min = 5, 0
	if d.Log {
		to.Y.Min, to.Y.Scale, to.Y.Tick.Marker = math.Inf(1), plot.LogScale{}, plot.TickerFunc(roundLog)
	}
	if d.Ticks != nil {
		to.X.Tick.Marker = plot.ConstantTicks(d.Ticks)
	}
	to.Add(plotter.NewGrid())
	for _, c := range d.Curves {
		if len(c.Points) == 0 {
			continue
		}
		line, dots, err := plotter.NewLinePoints(c.Points)
		if err != nil {
			return nil, err
		}
		line.Color, line.Width = colors[c.Color], 2
		if c.Line == Dashed {
			line.Dashes = []vg.Length{6, 4}
		}
		dots.Color, dots.Shape, dots.Radius = colors[c.Color], shapes[c.Color], 3.5
		var shown []plot.Thumbnailer
		if c.Line != None {
			to.Add(line)
			shown = append(shown, line)
		}
		if c.Dots {
			to.Add(dots)
			shown = append(shown, dots)
		}
		legend.add(c.Name, shown...)
	}
	width *= vg.Length(0.7) / vg.Length(len(d.Groups)*(len(d.Bars)+1)+1)
	for k, one := range d.Bars {
		if len(one.Values) == 0 {
			continue
		}
		chart, err := plotter.NewBarChart(one.Values, width)
		if err != nil {
			return nil, err
		}
		chart.Color, chart.LineStyle.Width = colors[k], 0
		chart.Offset = width * vg.Length(float64(k)-float64(len(d.Bars)-1)/2)
		to.Add(chart)
		legend.add(one.Name, chart)
	}
	if len(d.Groups) > 0 {
		to.NominalX(d.Groups...)
		to.X.Min, to.X.Max = -0.6, float64(len(d.Groups))-0.4
	}
	if !d.Log {
		to.Y.Max *= 1.05
	}
	if d.Top > 0 {
		to.Y.Max = d.Top
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
