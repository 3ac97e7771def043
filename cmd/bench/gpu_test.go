package main

import (
	"context"
	"errors"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/batchfs/batchfs/layout"
)

func TestDecodingRows(t *testing.T) {
	r := results{}
	for _, rates := range [][]float64{{2, 2}, {1, 6}, {8, 1}, {7, 5}, {4, 1}, {1, 3}} {
		var one result
		for _, x := range rates {
			one.rounds = append(one.rounds, figures{rate: x})
		}
		r = append(r, one)
	}
	names := []string{"libjpeg", "ours, 16", "ours, 64", "ours, 256", "a", "b"}
	for i, want := range []float64{2, 3.5, 4.5, 6, 2.5, 2, 3.5, 2} { // the best of each round are 8 and 6, 4 and 3
		if got := decodingRows(names, r)[i]; got.median() != want {
			t.Errorf("row %d is %v, want %g", i, got, want)
		}
	}
	r[4], r[5] = result{missing: errors.New("no library")}, result{missing: errors.New("no library")}
	if last := decodingRows(names, r)[7]; !strings.HasSuffix(last.String(), "skipped: there is no figure of nvJPEG's") {
		t.Errorf("without nvJPEG: %v", last)
	}
	began := time.Now()
	f, err := perSecond(rate, 7, func(context.Context) error { return nil })(t.Context())
	if most := 7 / time.Since(began).Seconds(); err != nil || f[rate] < most || math.IsInf(f[rate], 0) {
		t.Errorf("%g images/s, at least %g (%v)", f[rate], most, err)
	}
}

// TestPlacedBytes: the bytes of a crop are counted once when they are read and once when they are
// written.
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

// TestTorchvision: the script decodes each file once in a turn; where it cannot run, one line says
// why.
func TestTorchvision(t *testing.T) {
	const torch = `
import types
uint8, cuda = int, types.SimpleNamespace(is_available=lambda: True, synchronize=lambda: None)
def frombuffer(data, dtype):
    return bytes(data)
`
	const vision = `
import types
ImageReadMode = types.SimpleNamespace(RGB=3)
def decode_jpeg(files, mode, device):
    assert set(files) == {b"JPEG"} and (mode, device) == (3, "cuda")
`
	modules, folder := t.TempDir(), t.TempDir()
	b := &bench{options: options{python: "python3", work: t.TempDir()}}
	for name, text := range map[string]string{
		"torch.py": torch, "torchvision/__init__.py": "__version__ = '1'", "torchvision/io.py": vision,
	} {
		path := filepath.Join(modules, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(text), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 2*manyJPEGs + 1 {
		if err := os.WriteFile(filepath.Join(folder, strconv.Itoa(i)), []byte("JPEG"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := exec.LookPath(b.python); err != nil {
		t.Skip("SKIPPED: ", err)
	}
	start := torchvision(b, folder, 2*manyJPEGs+1).start
	if _, err := start(t.Context()); err == nil || strings.Contains(err.Error(), "\n") {
		t.Errorf("without it: %v", err)
	}
	t.Setenv("PYTHONPATH", modules)
	turn, err := start(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer b.end(0)
	if f, err := turn(t.Context()); err != nil || f[rate] <= 0 {
		t.Errorf("%v, %v", f, err)
	}
	b.python = "no-python"
	if _, err := start(t.Context()); err == nil || !strings.Contains(err.Error(), "not found") {
		t.Errorf("without Python: %v", err)
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
