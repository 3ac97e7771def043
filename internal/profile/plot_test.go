package profile

import (
	"bytes"
	"encoding/json"
	"io"
	"math"
	"strings"
	"testing"

	"github.com/batchfs/batchfs/internal/convert"
	"github.com/batchfs/batchfs/internal/testkit"
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

// TestPlot: a picture has the model, the measurements, and the answer, or those of them that exist.
func TestPlot(t *testing.T) {
	var out bytes.Buffer
	testkit.Must(t, example().Plot(&out, "svg"))
	for _, want := range []string{"60 % raw, 40 % encoded, 150 images/s", "encoded : raw", "loading", "decoding", "10:0", "0:10", ">200<"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("it does not say %q", want)
		}
	}
	if n := strings.Count(out.String(), "<path"); n < 59 {
		t.Errorf("it has %d lines and dots, and axes", n)
	}
	if strings.Contains(out.String(), "NaN") || strings.Contains(out.String(), "Inf") || strings.Contains(out.String(), ">1000<") {
		t.Error("a place that is none")
	}
	for _, format := range []string{"svg", "png"} {
		if err := new(Result).Plot(io.Discard, format); err != nil {
			t.Errorf("%s: %v", format, err)
		}
	}
}

func TestRateJSON(t *testing.T) {
	got, err := json.Marshal([]Rate{1.5, rateOf(0), rateOf(-1), Rate(math.NaN())})
	if string(got) != "[1.5,null,null,null]" || err != nil {
		t.Errorf("%s, %v", got, err)
	}
}
