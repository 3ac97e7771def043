package docs

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/batchfs/batchfs/internal/testkit"
)

const mostMethods, mostFields = 25, 18

// plain are types that only list things: options, rows of a table, results, calls that are refused.
var plain = map[string]bool{
	"cmd/batchfs.mountRequest": true, "internal/dataset.Options": true, "internal/dataset.parquetRow": true, "decode/resample.job": true,
	"internal/engine.Options": true, "internal/profile.Result": true, "fusefs.refused": true, "internal/gpu.sample": true, "internal/profile.DryRunStats": true,
}

// eachSource calls f with each file of Go.
func eachSource(f func(path string) error) error {
	return filepath.WalkDir("..", func(p string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && p != ".." && (strings.HasPrefix(d.Name(), ".") || d.Name() == "testdata" || p == filepath.Join("..", "bin")):
			return filepath.SkipDir
		case !strings.HasSuffix(p, ".go"):
			return nil
		}
		return f(p)
	})
}

// TestTypesAreNarrow: no type has more methods or fields than can be kept in mind.
func TestTypesAreNarrow(t *testing.T) {
	methods, fields := map[string]int{}, map[string]int{}
	err := eachSource(func(p string) error {
		if strings.HasSuffix(p, "_test.go") {
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
	testkit.Must(t, err)
	if methods["internal/engine.batches"] == 0 || fields["internal/engine.batch"] == 0 {
		t.Fatal("the sources were not found")
	}
	check := func(what string, counts map[string]int, most int) {
		for name, n := range counts {
			if n > most && !plain[name] {
				t.Errorf("%s has %d %s, and may have %d", name, n, what, most)
			}
		}
	}
	check("methods", methods, mostMethods)
	check("fields", fields, mostFields)
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

const columns = 100

// TestCommentsAreNarrow: a line that only has a comment is read without scrolling. A tab counts as
// four columns.
func TestCommentsAreNarrow(t *testing.T) {
	err := eachSource(func(p string) error {
		text, err := os.ReadFile(p)
		if err != nil {
			return err
		}
		for i, line := range strings.Split(string(text), "\n") {
			comment, found := strings.CutPrefix(strings.TrimLeft(line, "\t"), "// ")
			if found && !strings.HasPrefix(comment, " ") && utf8.RuneCountInString(strings.ReplaceAll(line, "\t", "    ")) > columns {
				t.Errorf("%s:%d: the comment has more than %d columns", p, i+1, columns)
			}
		}
		return nil
	})
	testkit.Must(t, err)
}
