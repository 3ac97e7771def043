package profile

import (
	"fmt"
	"image/color"
	"io"
	"math"
	"slices"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	_ "gonum.org/v1/plot/vg/vgimg" // png
	_ "gonum.org/v1/plot/vg/vgsvg" // svg

	"github.com/batchfs/batchfs/shard"
)

var (
	ink         = color.RGBA{40, 40, 40, 255}
	loadingInk  = color.RGBA{31, 119, 180, 255}
	decodingInk = color.RGBA{214, 100, 20, 255}
	resultInk   = color.RGBA{44, 140, 44, 255}
)

// A series is a line of a diagram, with dashes of a length unless that is 0, or dots.
type series struct {
	name   string // in the legend, unless ""
	ink    color.RGBA
	dash   vg.Length
	points []Point
	rate   func(Point) Rate
}

const dots = vg.Length(-1) // for the length of the dashes

// Plot draws loading, decoding and the resulting throughput over the mix: lines for the model,
// dots for measurements, and a line at the answer. format is svg or png.
func (r *Result) Plot(w io.Writer, format string) error {
	p := plot.New()
	forms := r.path()
	title := ""
	for _, f := range slices.Backward(forms) {
		title += fmt.Sprintf("%.0f %% %s, ", 100*r.Of(f), f)
	}
	p.Title.Text = fmt.Sprintf("best: %s%.4g images/s", title, float64(r.Verified))
	p.X.Label.Text, p.Y.Label.Text = strings.Join(r.Forms, " : ")+" images", "images/s"
	var ticks plot.ConstantTicks
	for i := 0; i <= forms.last(); i += max(1, len(forms)-1) {
		place := float64(i) / tenths
		var label []string
		for _, f := range forms {
			label = append(label, fmt.Sprintf("%.0f", tenths*forms.mix(place).Of(f)))
		}
		ticks = append(ticks, plot.Tick{Value: place, Label: strings.Join(label, ":")})
	}
	p.X.Tick.Marker, p.Legend.Top = ticks, true
	p.Add(plotter.NewGrid())
	loading := func(p Point) Rate { return p.Loading }
	decoding := func(p Point) Rate { return p.Decoding }
	throughput := func(p Point) Rate { return p.Throughput }
	var steps, runs []Point
	for _, s := range r.Steps {
		steps = append(steps, s.Point)
	}
	for _, t := range r.Runs {
		runs = append(runs, Point{Shares: t.Shares, Throughput: t.Throughput})
	}
	top := Rate(1) // the highest rate shown: everything of interest lies well below it
	for _, p := range slices.Concat(r.Curve, runs) {
		if !math.IsInf(float64(p.Throughput), 0) {
			top = max(top, 1.7*p.Throughput)
		}
	}
	for _, s := range []series{
		{"loading", loadingInk, 0, r.Curve, loading},
		{"decoding", decodingInk, 0, r.Curve, decoding},
		{"the slower of both", resultInk, 5, r.Curve, throughput},
		{"", loadingInk, dots, steps, loading},
		{"", decodingInk, dots, steps, decoding},
		{"a run of the engine", resultInk, dots, runs, throughput},
		{"", ink, 2, []Point{{Shares: r.Shares}, {Shares: r.Shares, Throughput: top}}, throughput},
	} {
		if err := s.addTo(p, forms, top); err != nil {
			return err
		}
	}
	p.X.Min, p.X.Max, p.Y.Min, p.Y.Max = 0, float64(max(len(forms)-1, 1)), 0, float64(top)
	picture, err := p.WriterTo(23*vg.Centimeter, 14*vg.Centimeter, format)
	if err != nil {
		return err
	}
	_, err = picture.WriteTo(w)
	return err
}

// path is that of the forms.
func (r *Result) path() (p path) {
	for f := range shard.Cost(shard.NumCosts) {
		if slices.Contains(r.Forms, f.String()) {
			p = append(p, f)
		}
	}
	return p
}

// addTo adds the series to a diagram that shows rates up to top.
func (s *series) addTo(p *plot.Plot, forms path, top Rate) error {
	var spots plotter.XYs
	for _, pt := range s.points {
		spots = append(spots, plotter.XY{X: forms.place(pt.Shares), Y: float64(min(s.rate(pt), 100*top))}) // not infinite
	}
	if len(spots) == 0 {
		return nil
	}
	line, marks, err := plotter.NewLinePoints(spots)
	if err != nil {
		return err
	}
	line.Color, line.Width = s.ink, 1.6
	if s.dash > 0 {
		line.Dashes = []vg.Length{s.dash, s.dash}
	}
	marks.GlyphStyle = draw.GlyphStyle{Color: s.ink, Radius: 3, Shape: draw.CircleGlyph{}}
	shape, legend := plot.Plotter(line), plot.Thumbnailer(line)
	if s.dash == dots {
		shape, legend = marks, marks
	}
	p.Add(shape)
	if s.name != "" {
		p.Legend.Add(s.name, legend)
	}
	return nil
}
