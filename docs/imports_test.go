package docs

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/batchfs/batchfs/internal/testkit"
)

// TestImportsGoDown: every package has its place in the picture of architecture.md, and
// stands above all that it imports, be it through others. What shares a floor is therefore
// independent: packages on the lowest one import none of this module.
func TestImportsGoDown(t *testing.T) {
	const module = "github.com/batchfs/batchfs/"
	text, err := os.ReadFile("architecture.md")
	testkit.Must(t, err)
	depth, floor := map[string]int{}, 0 // floors count from the top
	for line := range strings.Lines(strings.SplitN(string(text), "```", 3)[1]) {
		if strings.HasPrefix(line, "+--") {
			floor++
		} else if cells := strings.Split(line, "|"); len(cells) > 1 {
			for name := range strings.FieldsSeq(cells[1]) {
				depth[name] = floor
			}
		}
	}
	for _, cgo := range []string{"0", "1"} {
		list := exec.Command("go", "list", "-f", `{{.ImportPath}} {{join .Deps " "}}`, module+"...")
		list.Env = append(os.Environ(), "CGO_ENABLED="+cgo)
		out, err := list.Output()
		testkit.Must(t, err)
		for line := range strings.Lines(string(out)) {
			packages := strings.Fields(line)
			name := strings.TrimPrefix(packages[0], module)
			if depth[name] == 0 {
				t.Errorf("package %s is not in the picture of architecture.md", name)
			}
			for _, dep := range packages[1:] {
				if dep, ours := strings.CutPrefix(dep, module); ours && depth[dep] <= depth[name] {
					t.Errorf("%s imports %s, which is not below it in architecture.md", name, dep)
				}
			}
			touch(t, "..")
			touch(t, filepath.Join("..", name))
		}
	}
}

// mostKnown is how many packages of this module the command may import: it has flags and words, and
// work that takes more of them belongs below it.
const mostKnown = 15

func TestCommandKnowsFew(t *testing.T) {
	out, err := exec.Command("go", "list", "-f", `{{join .Imports "\n"}}`, "../cmd/batchfs").Output()
	testkit.Must(t, err)
	touch(t, "../cmd/batchfs")
	if n := strings.Count(string(out), "github.com/batchfs/batchfs/"); n == 0 || n > mostKnown {
		t.Errorf("cmd/batchfs imports %d packages of this module, more than %d:\n%s", n, mostKnown, out)
	}
}

// touch lists a directory, so that go test does not answer from its cache when a file there
// has changed.
func touch(t *testing.T, dir string) {
	t.Helper()
	if _, err := os.ReadDir(dir); err != nil {
		t.Error(err)
	}
}
