package layout

import (
	"bytes"
	"errors"
	"io/fs"
	"math"
	"math/big"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

func FuzzNewSpec(f *testing.F) {
	for _, dims := range [][4]int{
		{4096, 67108864, 67108864, 1}, {2, 67108864, 67108864, 3}, {32, 224, 224, 3}, {0, 0, 0, 3}, {0, math.MaxInt, 1, 1},
		{1 << 48, 1, 1, 1}, {1<<48 + 1, 0, 0, 1}, {1, 1 << 62, 1, 1}, {1, 1 << 31, 1 << 31, 1}, {1, 1 << 31, 1<<31 + 1, 1},
		{math.MaxInt, math.MaxInt, math.MaxInt, math.MaxInt}, {1, math.MaxInt, 0, 1}, {-1, 1, 1, 1}, {1, 1, math.MinInt, 1}, {1 << 47, 1, 1, 3},
	} {
		for d := Uint8; d <= Float32; d++ {
			f.Add(dims[0], dims[1], dims[2], dims[3], uint8(d))
		}
	}
	f.Fuzz(func(t *testing.T, n, h, w, c int, dtype uint8) {
		for _, order := range []Order{NHWC, NCHW} {
			s, err := NewSpec(n, h, w, c, DType(dtype%5), order)
			if s.Err() != err || s.Shape() != (Spec{N: n, H: h, W: w, C: c, Order: order}).Shape() {
				t.Fatalf("%+v, %v", s, err)
			}
			checkSpec(t, s)
		}
	})
}

// checkSpec compares a Spec's sizes with exact arithmetic.
func checkSpec(t *testing.T, s Spec) {
	t.Helper()
	sample := big.NewInt(int64(s.DType.Size()))
	for _, dim := range []int{s.H, s.W, s.C} {
		sample.Mul(sample, big.NewInt(int64(dim)))
	}
	tensor := new(big.Int).Mul(sample, big.NewInt(int64(s.N)))
	sane := min(s.N, s.H, s.W, s.C) >= 0 && s.DType.Size() > 0
	switch limit := big.NewInt(maxTensor); {
	case s.Err() == nil && (!sane || tensor.Cmp(limit) > 0 || sample.Cmp(limit) > 0):
		t.Fatalf("%+v is said to exist", s)
	case errors.Is(s.Err(), errTooBig) && !sane:
		t.Fatalf("%+v: %v", s, s.Err())
	case s.Err() != nil && sane && min(s.N, s.H, s.W, s.C) > 0 && tensor.Cmp(limit) <= 0 && s.N <= maxSlots:
		t.Fatalf("%+v is said not to exist: %v", s, s.Err())
	}
	for _, f := range Forms() {
		size := Size(f, s)
		switch {
		case f == JSON && size != -1, f != JSON && size < 0:
			t.Fatalf("%+v: %v has %d bytes", s, f, size)
		case s.Err() != nil && f.Large() && size != math.MaxInt64:
			t.Fatalf("%+v: %v cannot exist and has %d bytes", s, f, size)
		case s.Err() == nil && f.Tensor() && new(big.Int).Add(tensor, big.NewInt(DataOffset(f, s))).Cmp(big.NewInt(size)) != 0:
			t.Fatalf("%+v: %v has %d bytes, want %v and a header", s, f, size, tensor)
		}
	}
	if s.Err() == nil {
		if big.NewInt(s.SampleBytes()).Cmp(sample) != 0 || big.NewInt(s.Bytes()).Cmp(tensor) != 0 {
			t.Fatalf("%+v: %d bytes a sample, %d in all, want %v and %v", s, s.SampleBytes(), s.Bytes(), sample, tensor)
		}
	} else if s.SampleBytes() != math.MaxInt64 || s.Bytes() != math.MaxInt64 {
		t.Fatalf("%+v: %d bytes a sample, %d in all", s, s.SampleBytes(), s.Bytes())
	}
}

// TestSpecsAreMadeHere: no other package builds a Spec without NewSpec's checks.
func TestSpecsAreMadeHere(t *testing.T) {
	composed := regexp.MustCompile(`\blayout\.Spec\{\s*\w|\]layout\.Spec\{\s*\{\s*\w|\bnew\(layout\.Spec\)`)
	for _, wrong := range []string{"layout.Spec{N: 1}", "new(layout.Spec)", "[]layout.Spec{{N: 1}}"} {
		if !composed.MatchString(wrong) {
			t.Errorf("%s is not found", wrong)
		}
	}
	found := 0
	err := filepath.WalkDir("..", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (strings.HasPrefix(d.Name(), ".") && d.Name() != ".." || d.Name() == "layout" || d.Name() == "testdata"):
			return fs.SkipDir
		case d.IsDir() || !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go"):
			return nil
		}
		text, err := os.ReadFile(name)
		if bytes.Contains(text, []byte("layout.Spec")) {
			found++
		}
		if where := composed.Find(text); where != nil {
			t.Errorf("%s: %s: use layout.NewSpec", name, where)
		}
		return err
	})
	if err != nil || found == 0 {
		t.Errorf("%d files use package layout: %v", found, err)
	}
}
