package profile

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"image/png"
	"io"
	"math"
	"strings"
	"testing"

	"github.com/batchfs/batchfs/internal/convert"
)

// example is a result with every kind of point, including infinite ones.
func example() *Result {
	m := model{
		load: costs{0.001, 0, 0.01}, decode: costs{0.02, 0, 0.0005},
		hits: func(s convert.Shares) float64 { return max(0, 1-2*s.Raw) },
	}
	r := &Result{Forms: []string{"encoded", "raw"}, Shares: convert.Shares{Raw: 0.6}, EncodedRatio: 0.4, Verified: 150}
	for i := range 101 {
		r.Curve = append(r.Curve, m.at(convert.Shares{Raw: float64(i) / 100}))
	}
	for _, x := range []float64{0, 0.5, 0.8} {
		p := m.at(convert.Shares{Raw: x})
		r.Steps = append(r.Steps, Step{Point: p})
		r.Runs = append(r.Runs, Trial{Shares: p.Shares, Throughput: p.Throughput * 0.9})
	}
	return r
}

func TestPlotSVG(t *testing.T) {
	var out bytes.Buffer
	if err := example().Plot(&out, "svg"); err != nil {
		t.Fatal(err)
	}
	elements := map[string]int{}
	for d := xml.NewDecoder(bytes.NewReader(out.Bytes())); ; {
		token, err := d.Token()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if e, ok := token.(xml.StartElement); ok {
			elements[e.Name.Local]++
		}
	}
	if elements["svg"] != 1 || elements["path"] < 25 || elements["text"] < 15 {
		t.Errorf("elements %v", elements)
	}
	for _, want := range []string{"60 % raw, 40 % encoded, 150 images/s", "loading", "decoding", "10:0", "0:10"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("it does not say %q", want)
		}
	}
	if strings.Contains(out.String(), "NaN") || strings.Contains(out.String(), "Inf") {
		t.Error("a place that is none")
	}
}

func TestPlotPNG(t *testing.T) {
	var out bytes.Buffer
	if err := example().Plot(&out, "png"); err != nil {
		t.Fatal(err)
	}
	img, err := png.Decode(&out)
	if err != nil {
		t.Fatal(err)
	}
	seen := map[[3]uint32]int{}
	for y := range img.Bounds().Dy() {
		for x := range img.Bounds().Dx() {
			r, g, b, _ := img.At(x, y).RGBA()
			seen[[3]uint32{r >> 8, g >> 8, b >> 8}]++
		}
	}
	for name, c := range map[string][3]uint32{"loading": {31, 119, 180}, "decoding": {214, 100, 20}, "result": {44, 140, 44}} {
		if seen[c] < 50 {
			t.Errorf("%d pixels of %s", seen[c], name)
		}
	}
}

func TestPlotOfNothing(t *testing.T) {
	for _, f := range []string{"svg", "png"} {
		if err := new(Result).Plot(io.Discard, f); err != nil {
			t.Errorf("%s: %v", f, err)
		}
	}
	if err := new(Result).Plot(io.Discard, "gif"); err == nil {
		t.Errorf("gif: %v", err)
	}
}

func TestRateJSON(t *testing.T) {
	got, err := json.Marshal([]Rate{1.5, rateOf(0), rateOf(-1), Rate(math.NaN())})
	if string(got) != "[1.5,null,null,null]" || err != nil {
		t.Errorf("%s, %v", got, err)
	}
}
