package main

import (
	"context"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/batchfs/batchfs/gpu"
	"github.com/batchfs/batchfs/internal/fakegpu"
	"github.com/batchfs/batchfs/layout"
)

// A liar is a GPU that returns other bytes than it made, or none.
type liar struct {
	gpu.Driver
	change func(run gpu.Run)
	idle   bool
}

func (l liar) Run(r gpu.Run) error {
	if l.idle {
		r.Launches = nil
	}
	err := l.Driver.Run(r)
	if l.change != nil {
		l.change(r)
	}
	return err
}

// pictures are JPEGs and others.
func pictures(t *testing.T) [][]byte {
	t.Helper()
	var names []string
	for _, pattern := range []string{"samples/*.jpg", "oriented/*.jpg", "oriented/*.png"} {
		some, err := filepath.Glob(filepath.Join("../../decode/testdata", pattern))
		if err != nil || len(some) == 0 {
			t.Fatalf("no files %s: %v", pattern, err)
		}
		names = append(names, some...)
	}
	files, err := contents(names)
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// TestExactnessIsChecked: a GPU that makes the right bytes passes; one that changes a single one of them does not, nor one that
// makes nothing.
func TestExactnessIsChecked(t *testing.T) {
	if !fakegpu.Kernels {
		t.Skip("SKIPPED: the kernels need cgo")
	}
	files := pictures(t)
	check := func(l liar) (all tally) {
		l.Driver = &fakegpu.GPU{Memory: 1 << 30}
		c := newChecker(l, files)
		for k := range uint64(6) {
			found, err := c.check(k, 8)
			if err != nil {
				t.Fatal(err)
			}
			all.add(found)
		}
		if err := c.close(); err != nil {
			t.Error(err)
		}
		return all
	}
	right := check(liar{})
	if rows, err := right.rows(); err != nil || right.bytes == 0 || !strings.Contains(rows[0].String(), "at most 0: met") {
		t.Errorf("%+v: %v", right, err)
	}
	changed := 0
	wrong := check(liar{change: func(r gpu.Run) {
		if len(r.Back) < 2 { // it only makes the memory dirty
			return
		}
		if verdicts, tensor := r.Back[0].To, r.Back[1].To; changed == 0 && len(verdicts) > 0 && !slices.ContainsFunc(verdicts, func(b byte) bool { return b != 0 }) {
			tensor[0] ^= 1
			changed++
		}
	}})
	if rows, err := wrong.rows(); err == nil || wrong.differ != changed || changed != 1 || !strings.Contains(rows[0].String(), "MISSED") {
		t.Errorf("one other byte: %+v: %v", wrong, err)
	}
	idle := check(liar{idle: true})
	if _, err := idle.rows(); err == nil {
		t.Errorf("a GPU that does nothing: %+v", idle)
	}
	few := tally{samples: 100, decoded: 10, bytes: 1}
	if _, err := few.rows(); err == nil {
		t.Error("too few samples were compared")
	}
}

func TestGPUFigures(t *testing.T) {
	if got := bandwidth(3e9, 50, 2*time.Second); got != 75e9 {
		t.Errorf("150 GB in 2 s are %g bytes/s", got)
	}
	var x []float64
	for i := range 200 {
		x = append(x, float64(200-i))
	}
	for p, want := range map[float64]float64{0: 1, .5: 100, .99: 198, .9901: 199, 1: 200} {
		if got := quantile(x, p); got != want {
			t.Errorf("quantile %g of 1 to 200 is %g", p, got)
		}
	}
	if got := fastest([][]float64{{1, 5}, {2, 3}}); !slices.Equal(got, []float64{2, 5}) {
		t.Errorf("the best of each round: %v", got)
	}
	rows := decodingRows([]string{"ours", "libjpeg", "a", "b"}, [][]float64{{9, 8, 6}, {9, 2, 2}, {9, 4, 1}, {9, 1, 3}})
	for i, want := range []float64{7, 2, 2.5, 2, 3.5, 2} { // medians of the second round and the third
		if rows[i].Value != want {
			t.Errorf("row %d is %v, want %g", i, rows[i], want)
		}
	}
	if last := decodingRows([]string{"ours", "libjpeg"}, [][]float64{{9, 8}, {9, 2}})[3]; last.skipped == "" {
		t.Errorf("without nvJPEG: %v", last)
	}
	began := time.Now()
	images, err := rate(make([][]byte, 7), func(ctx context.Context) error { return nil })(t.Context())
	if most := 7 / time.Since(began).Seconds(); err != nil || images < most || math.IsInf(images, 0) {
		t.Errorf("%g images/s, at least %g (%v)", images, most, err)
	}
}

// TestPlacedBytes: the bytes of a crop are counted once when they are read and once when they are written.
func TestPlacedBytes(t *testing.T) {
	_, none, err := placePlan(0, placing{"", layout.Uint8, layout.NHWC})
	if err != nil || none != 0 {
		t.Errorf("no samples: %d bytes, %v", none, err)
	}
	const n, written = 8, 8 * 224 * 224 * 3
	_, bytes, err := placePlan(n, placing{"", layout.Uint8, layout.NHWC})
	if read := bytes - written; err != nil || read < n*500*375*3*8/100/2 || read > n*500*375*3 {
		t.Errorf("%d bytes are read of %d crops, %v", read, n, err)
	}
	_, doubled, err := placePlan(n, placing{"", layout.Float16, layout.NCHW})
	if err != nil || doubled-bytes != written {
		t.Errorf("float16: %d more bytes than uint8, %v", doubled-bytes, err)
	}
}

func TestFrameworkRows(t *testing.T) {
	for out, want := range map[string]string{
		`{"skipped": "no module"}`: "skipped: no module",
		"warning\n" + `{"what": "torch 2", "opens": [0.002, 0.001, 0.004], "wrong": []}` + "\n": "2.000 ms        p99 4.000 ms, 3 opens of finished batches; the bytes are right",
	} {
		if r, err := frameworkRow("torch", []byte(out)); err != nil || !strings.HasSuffix(r.String(), want) {
			t.Errorf("%s: %q, %v", out, r, err)
		}
	}
	for _, out := range []string{"", "nonsense", `{"what": "torch 2", "opens": [1], "wrong": ["a.cuda"]}`, `{"what": "torch 2"}`} {
		if r, err := frameworkRow("torch", []byte(out)); err == nil {
			t.Errorf("%q passed: %v", out, r)
		}
	}
}

// TestWithoutGPU: where there is none, one line says why.
func TestWithoutGPU(t *testing.T) {
	if _, err := os.Stat("/dev/nvidia0"); err == nil {
		t.Skip("SKIPPED: there is a GPU")
	}
	if _, err := findGPU(); err == nil || !strings.Contains(err.Error(), "there is no GPU to check: ") || strings.Contains(err.Error(), "\n") {
		t.Error(err)
	}
}
