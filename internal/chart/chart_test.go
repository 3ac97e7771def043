package chart

import (
	"bytes"
	"encoding/xml"
	"errors"
	"image/color"
	"image/png"
	"io"
	"strings"
	"testing"

	"github.com/batchfs/batchfs/internal/testkit"
)

// example has curves and bars, including some with nothing to show.
func example() []Diagram {
	measured := Curve{Name: "as measured", Dots: true}
	model := Curve{Name: "by the model", Color: 1, Line: Dashed}
	for k := range 5 {
		measured.Add(float64(k), 100*float64(k))
		model.Add(float64(k), 110*float64(k))
	}
	bars := []Bars{{"processors", []float64{90, 40, 20}}, {"storage", []float64{20, 60, 100}}, {Name: "nobody"}}
	return []Diagram{
		{Title: "JPEG", Y: "images/s", Curves: []Curve{measured, model, {Name: "nothing"}}},
		{Title: "PNG", Y: "% of what each could do", Groups: []string{"encoded", "packed", "raw"}, Bars: bars},
		{Title: "logarithmic", Log: true, Curves: []Curve{{Name: "as measured", Points: measured.Points[1:]}}},
		{Title: "no line", Top: 1000, Curves: []Curve{{Color: 2, Line: None, Dots: true, Points: measured.Points}}},
	}
}

// TestSVG: pictures contain their labels, each name of the legend once, and no NaN.
func TestSVG(t *testing.T) {
	var out bytes.Buffer
	testkit.Must(t, Draw(&out, "svg", 11, 8, example()...))
	for _, word := range []string{
		"JPEG", "images/s", "as measured", "by the model", "PNG", "encoded", "packed", "raw", "processors", "storage", ">200<", "Arial",
	} {
		if !strings.Contains(out.String(), word) {
			t.Errorf("it does not say %q", word)
		}
	}
	for _, word := range []string{"NaN", "Inf", "nothing", "nobody"} {
		if strings.Contains(out.String(), word) {
			t.Errorf("it has %s", word)
		}
	}
	if n := strings.Count(out.String(), "as measured"); n != 1 {
		t.Errorf("the legend has a name %d times", n)
	}
	for d := xml.NewDecoder(&out); ; {
		if _, err := d.Token(); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
	}
}

// TestPNG: curves have lines and dots, in their colors.
func TestPNG(t *testing.T) {
	pixels := func(d Diagram) map[color.RGBA]int {
		var out bytes.Buffer
		testkit.Must(t, Draw(&out, "png", 11, 8, d))
		img, err := png.Decode(&out)
		testkit.Must(t, err)
		seen := map[color.RGBA]int{}
		for y := range img.Bounds().Dy() {
			for x := range img.Bounds().Dx() {
				seen[color.RGBAModel.Convert(img.At(x, y)).(color.RGBA)]++
			}
		}
		return seen
	}
	curves := example()[0].Curves
	solid, dashed, dots := curves[0], curves[1], curves[0]
	solid.Dots, dots.Line = false, None
	dashed.Color, dashed.Points = 0, solid.Points
	ink := colors[0].(color.RGBA)
	count := func(c Curve) int { return pixels(Diagram{Curves: []Curve{c}})[ink] }
	all, line, some, spots := count(curves[0]), count(solid), count(dashed), count(dots)
	if spots < 50 || some < 50 || line <= some || all <= line || all <= spots {
		t.Errorf("pixels: %d in all, %d of a line, %d of a dashed one, %d of dots", all, line, some, spots)
	}
	if err := Draw(io.Discard, "gif", 11, 8, Diagram{}); err == nil {
		t.Error("a gif was drawn")
	}
}
