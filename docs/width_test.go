package docs

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"path/filepath"
	"strings"
	"testing"
)

const mostMethods, mostFields = 25, 18

// plain are types that only list things: options, rows of a table, results, calls that are refused.
var plain = map[string]bool{
	"cmd/batchfs.mountRequest": true, "dataset.Options": true, "dataset.parquetRow": true, "decode/resample.job": true,
	"engine.Options": true, "internal/profile.Result": true, "fusefs.refused": true, "internal/gpu.sample": true, "internal/dryrun.Stats": true,
}

// tooWide are the types that were too wide when this test was written, with their methods and fields. They may only
// become narrower.
var tooWide = map[string][2]int{
	"internal/cuda.Thread": {28, 0},
}

// TestTypesAreNarrow: no type has more methods or fields than can be kept in mind.
func TestTypesAreNarrow(t *testing.T) {
	methods, fields := map[string]int{}, map[string]int{}
	err := filepath.WalkDir("..", func(p string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && p != ".." && (strings.HasPrefix(d.Name(), ".") || d.Name() == "testdata" || p == filepath.Join("..", "bin")):
			return filepath.SkipDir
		case !strings.HasSuffix(p, ".go") || strings.HasSuffix(p, "_test.go"):
			return nil
		}
		file, err := parser.ParseFile(token.NewFileSet(), p, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		of := func(name string) string {
			return path.Join(strings.TrimPrefix(filepath.ToSlash(filepath.Dir(p)), "../")) + "." + name
		}
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.FuncDecl:
				if n.Recv != nil {
					methods[of(receiver(n.Recv.List[0].Type))]++
				}
			case *ast.TypeSpec:
				if s, ok := n.Type.(*ast.StructType); ok {
					for _, f := range s.Fields.List {
						fields[of(n.Name.Name)] += max(1, len(f.Names))
					}
				}
			}
			return true
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if methods["engine.batches"] == 0 || fields["engine.batch"] == 0 {
		t.Fatal("the sources were not found")
	}
	check := func(what string, counts map[string]int, most int, bound func([2]int) int) {
		for name, n := range counts {
			limit := max(most, bound(tooWide[name]))
			if n > limit && !plain[name] {
				t.Errorf("%s has %d %s, and may have %d", name, n, what, limit)
			}
		}
	}
	check("methods", methods, mostMethods, func(k [2]int) int { return k[0] })
	check("fields", fields, mostFields, func(k [2]int) int { return k[1] })
	for name, known := range tooWide {
		if methods[name] < known[0] || fields[name] < known[1] {
			t.Errorf("%s has %d methods and %d fields by now: say so in tooWide", name, methods[name], fields[name])
		}
	}
}

// receiver is the name of a receiver's type.
func receiver(e ast.Expr) string {
	for {
		switch of := e.(type) {
		case *ast.StarExpr:
			e = of.X
		case *ast.IndexExpr:
			e = of.X
		case *ast.IndexListExpr:
			e = of.X
		case *ast.Ident:
			return of.Name
		default:
			return ""
		}
	}
}
