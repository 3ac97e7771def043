package layout

import (
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"math"
	"math/big"
	"path"
	"path/filepath"
	"strconv"
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
		used, bad, err := specsOf(name, nil)
		found += used
		for _, where := range bad {
			t.Errorf("%s: a layout.Spec is composed; use layout.NewSpec", where)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if found == 0 {
		t.Error("no file uses package layout: the wrong directory was searched")
	}
	const wrong = `package p; import l "github.com/batchfs/batchfs/layout"
		var a, b = l.Spec{N: 1}, new(l.Spec); var c = []l.Spec{{N: 1}}; func f(l struct{ Spec int }) { l.Spec = 2 }`
	if _, bad, err := specsOf("wrong.go", wrong); err != nil || len(bad) != 3 {
		t.Errorf("%v, %v: three composed Specs are to be found", bad, err)
	}
}

// specsOf reports whether a source file uses package layout (1 or 0), and where it builds a
// Spec.
func specsOf(name string, source any) (used int, bad []string, err error) {
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, name, source, 0)
	if err != nil {
		return 0, nil, err
	}
	local := ""
	for _, i := range file.Imports {
		if p, err := strconv.Unquote(i.Path.Value); err == nil && path.Base(p) == "layout" {
			if local = "layout"; i.Name != nil {
				local = i.Name.Name
			}
		}
	}
	if local == "" {
		return 0, nil, nil
	}
	isSpec := func(e ast.Expr) bool {
		if a, ok := e.(*ast.ArrayType); ok {
			e = a.Elt
		}
		s, ok := e.(*ast.SelectorExpr)
		if !ok || s.Sel.Name != "Spec" {
			return false
		}
		id, ok := s.X.(*ast.Ident)
		return ok && id.Name == local
	}
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.CompositeLit:
			if isSpec(n.Type) && len(n.Elts) > 0 {
				bad = append(bad, files.Position(n.Pos()).String())
			}
		case *ast.CallExpr:
			if id, ok := n.Fun.(*ast.Ident); ok && id.Name == "new" && len(n.Args) == 1 && isSpec(n.Args[0]) {
				bad = append(bad, files.Position(n.Pos()).String())
			}
		}
		return true
	})
	return 1, bad, nil
}
