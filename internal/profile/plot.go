package profile

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"gonum.org/v1/plot"

	"github.com/batchfs/batchfs/internal/chart"
	"github.com/batchfs/batchfs/internal/convert"
	"github.com/batchfs/batchfs/shard"
)

// Plot draws loading, decoding and the resulting throughput over the mix: lines for the model,
// dots for measurements, and a line at the answer. format is svg or png.
func (r *Result) Plot(w io.Writer, format string) error {
	var forms path
	for f := range shard.Cost(shard.NumCosts) {
		if slices.Contains(r.Forms, f.String()) {
			forms = append(forms, f)
		}
	}
	d := chart.Diagram{X: strings.Join(r.Forms, " : ") + " images", Y: "images/s", Top: 1}
	best := ""
	for _, f := range slices.Backward(forms) {
		best += fmt.Sprintf("%.0f %% %s, ", 100*r.Of(f), f)
	}
	d.Title = fmt.Sprintf("best: %s%.4g images/s", best, float64(r.Verified))
	for i := 0; i <= forms.last(); i += max(1, len(forms)-1) {
		place := float64(i) / tenths
		var label []string
		for _, f := range forms {
			label = append(label, fmt.Sprintf("%.0f", tenths*forms.mix(place).Of(f)))
		}
		d.Ticks = append(d.Ticks, plot.Tick{Value: place, Label: strings.Join(label, ":")})
	}
	curves := [...]chart.Curve{
		{Name: "loading"}, {Name: "decoding", Color: 1}, {Name: "the slower of both", Color: 2, Line: chart.Dashed},
		{Line: chart.None, Dots: true}, {Color: 1, Line: chart.None, Dots: true},
		{Name: "a run of the engine", Color: 2, Line: chart.None, Dots: true},
		{Name: "the answer", Color: 3, Line: chart.Dashed},
	}
	show := func(rate Rate) { // all that matters lies well below the top
		if !math.IsInf(float64(rate), 0) {
			d.Top = max(d.Top, 1.7*float64(rate))
		}
	}
	for _, p := range r.Curve {
		show(p.Throughput)
	}
	for _, t := range r.Runs {
		show(t.Throughput)
	}
	add := func(curve int, s convert.Shares, rate Rate) {
		curves[curve].Add(forms.place(s), min(float64(rate), 100*d.Top)) // not infinite
	}
	for _, p := range r.Curve {
		add(0, p.Shares, p.Loading)
		add(1, p.Shares, p.Decoding)
		add(2, p.Shares, p.Throughput)
	}
	for _, s := range r.Steps {
		add(3, s.Shares, s.Loading)
		add(4, s.Shares, s.Decoding)
	}
	for _, t := range r.Runs {
		add(5, t.Shares, t.Throughput)
	}
	add(6, r.Shares, 0)
	add(6, r.Shares, Rate(d.Top))
	d.Curves = curves[:]
	return chart.Draw(w, format, 23, 14, d)
}
