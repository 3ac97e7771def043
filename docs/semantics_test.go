// Package docs checks that the documents say what the tests check.
package docs

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/batchfs/batchfs/internal/testkit"
)

// pins are at the end of a sentence: [package: TestName, TestName; package: TestName].
var (
	sentence = regexp.MustCompile(`^(\d+)\. (.*)$`)
	pins     = regexp.MustCompile(`^.*[.)] \[([^\[\]]+)\]$`)
)

// TestSemanticsArePinned: every sentence of semantics.md has its number and names tests, and
// all of those are there.
func TestSemanticsArePinned(t *testing.T) {
	text, err := os.ReadFile("semantics.md")
	testkit.Must(t, err)
	packages := map[string]map[string]bool{}
	last := 0
	for line := range strings.Lines(string(text)) {
		found := sentence.FindStringSubmatch(strings.TrimSuffix(line, "\n"))
		if found == nil {
			continue
		}
		if last++; found[1] != strconv.Itoa(last) {
			t.Fatalf("sentence %s stands where %d belongs", found[1], last)
		}
		named := pins.FindStringSubmatch(found[2])
		if named == nil {
			t.Errorf("sentence %d names no test: %s", last, found[2])
			continue
		}
		for part := range strings.SplitSeq(named[1], "; ") {
			name, tests, ok := strings.Cut(part, ": ")
			if !ok {
				t.Errorf("sentence %d: %q is not `package: TestName`", last, part)
				continue
			}
			if packages[name] == nil {
				packages[name] = testsOf(t, name)
			}
			for test := range strings.SplitSeq(tests, ", ") {
				if !packages[name][test] {
					t.Errorf("sentence %d: package %s has no test %s", last, name, test)
				}
			}
		}
	}
	if last == 0 {
		t.Error("there are no sentences")
	}
}

// testsOf are the tests of a package, which is named by its directory.
func testsOf(t *testing.T, name string) map[string]bool {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("..", filepath.FromSlash(name), "*_test.go"))
	testkit.Must(t, err)
	tests := map[string]bool{}
	for _, file := range files {
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
		testkit.Must(t, err)
		for _, d := range parsed.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && f.Recv == nil && strings.HasPrefix(f.Name.Name, "Test") && f.Name.Name != "TestMain" {
				tests[f.Name.Name] = true
			}
		}
	}
	return tests
}
