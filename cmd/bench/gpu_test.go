package main

import (
	"context"
	"errors"
	"math"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/batchfs/batchfs/layout"
)

func TestDecodingRows(t *testing.T) {
	r := results{}
	for _, rates := range [][]float64{{8, 6}, {2, 2}, {4, 1}, {1, 3}} {
		var one result
		for _, x := range rates {
			one.rounds = append(one.rounds, figures{rate: x})
		}
		r = append(r, one)
	}
	names := []string{"ours", "libjpeg", "a", "b"}
	for i, want := range []float64{7, 2, 2.5, 2, 3.5, 2} { // the best of each round is 4, 3
		if got := decodingRows(names, r)[i]; got.median() != want {
			t.Errorf("row %d is %v, want %g", i, got, want)
		}
	}
	r[2], r[3] = result{missing: errors.New("no library")}, result{missing: errors.New("no library")}
	if last := decodingRows(names, r)[5]; !strings.HasSuffix(last.String(), "skipped: there is no figure of nvJPEG's") {
		t.Errorf("without nvJPEG: %v", last)
	}
	began := time.Now()
	f, err := perSecond(rate, 7, func(context.Context) error { return nil })(t.Context())
	if most := 7 / time.Since(began).Seconds(); err != nil || f[rate] < most || math.IsInf(f[rate], 0) {
		t.Errorf("%g images/s, at least %g (%v)", f[rate], most, err)
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

// TestWithoutGPU: where there is none, one line says why.
func TestWithoutGPU(t *testing.T) {
	if _, err := os.Stat("/dev/nvidia0"); err == nil {
		t.Skip("SKIPPED: there is a GPU")
	}
	if _, err := findGPU(); err == nil || !strings.Contains(err.Error(), "there is no GPU to measure: ") || strings.Contains(err.Error(), "\n") {
		t.Error(err)
	}
}
