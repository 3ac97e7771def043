package annotation

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/batchfs/batchfs/internal/target"
	"github.com/batchfs/batchfs/internal/testkit"
)

// said is everything that annotations say about an image, as oracle.py prints it.
type said struct {
	Size     []int    `json:"size,omitempty"`
	Objects  []object `json:"objects,omitempty"`
	Mask     string   `json:"mask,omitempty"`
	Text     string   `json:"text,omitempty"`
	Bad      string   `json:"bad,omitempty"`
	shapes   []target.Shape
	arrays   [2]string // paths by column
	oriented bool
}

type object struct {
	Box       []float32   `json:"box"`
	Visible   []float32   `json:"visible,omitempty"`
	Label     int         `json:"label"`
	ID        int64       `json:"id"`
	Flags     int         `json:"flags"`
	Keypoints [][]float32 `json:"keypoints,omitempty"`
	Shape     *shape      `json:"shape,omitempty"`
}

type shape struct {
	Class  int   `json:"class"`
	Pixels []int `json:"pixels"`
}

// rowOfTable is everything that a table says about a row.
func rowOfTable(table *target.Table, row int) (s said) {
	h, w, oriented := table.Size(row)
	if s.oriented = oriented; h > 0 && w > 0 {
		s.Size = []int{h, w}
	}
	for _, o := range table.Objects(row) {
		one := object{Box: o.Box[:], Label: int(o.Label), ID: o.ID, Flags: int(o.Flags)}
		if o.Visible != nil {
			one.Visible = o.Visible[:]
		}
		for _, p := range o.Keypoints {
			one.Keypoints = append(one.Keypoints, []float32{p.X, p.Y, p.V})
		}
		s.Objects = append(s.Objects, one)
	}
	s.Mask, s.Text, s.Bad, s.shapes = table.Mask(row), string(table.Text(row)), table.Bad(row), table.Shapes(row)
	s.arrays = [2]string{table.Array(row, 0), table.Array(row, 1)}
	return s
}

// find finds the annotations of a dataset, and returns them by image name. None may be of an
// unknown image.
func find(t *testing.T, path string, o Options) (*Found, map[string]said) {
	t.Helper()
	f, all, err := tryFind(t, path, o)
	testkit.Must(t, err)
	return f, all
}

func tryFind(t *testing.T, path string, o Options) (*Found, map[string]said, error) {
	t.Helper()
	f, err := search(t.Context(), path, o)
	if err != nil {
		return nil, nil, err
	}
	b := f.Builder
	t.Cleanup(func() { _ = b.Close() })
	table, err := b.Table(b.Len(), b.Path)
	testkit.Must(t, err)
	all := map[string]said{}
	for i := range b.Len() {
		all[b.Path(i)] = rowOfTable(table, i)
	}
	return f, all, nil
}

// findError is the error of looking for annotations.
func findError(t *testing.T, path string, o Options) error {
	t.Helper()
	_, _, err := tryFind(t, path, o)
	if err == nil {
		t.Fatalf("%s: there is no error", path)
	}
	return err
}

// write writes files below a folder.
func write(t *testing.T, dir string, files map[string]string) {
	t.Helper()
	for name, content := range files {
		path := filepath.Join(dir, name)
		testkit.Must(t, os.MkdirAll(filepath.Dir(path), 0o755))
		testkit.Must(t, os.WriteFile(path, []byte(content), 0o644))
	}
}

// oracle makes a dataset, and returns what other programs find in it.
func oracle(t *testing.T, kind, dir string, modules ...string) (want map[string]said) {
	t.Helper()
	python := testkit.Python(t, append(modules, "torchvision", "PIL", "numpy")...)
	out, err := exec.Command(python, "testdata/oracle.py", kind, dir).Output()
	if err != nil {
		t.Fatalf("%v: %s", err, err.(*exec.ExitError).Stderr)
	}
	testkit.Must(t, json.Unmarshal(out, &want))
	return want
}
