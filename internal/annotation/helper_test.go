package annotation

import (
	"cmp"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/batchfs/batchfs/internal/target"
	"github.com/batchfs/batchfs/internal/testkit"
)

// said is what annotations say of an image, as oracle.py prints it.
type said struct {
	Size     []int    `json:"size,omitempty"`
	Objects  []object `json:"objects,omitempty"`
	Mask     string   `json:"mask,omitempty"`
	Text     []string `json:"text,omitempty"`
	Bad      string   `json:"bad,omitempty"`
	shapes   []target.Shape
	arrays   []string // paths by column
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

// recorder is a Sink that keeps all that it is told.
type recorder struct {
	names  []string
	images []said
	number map[string]int
}

func newRecorder() *recorder { return &recorder{number: map[string]int{}} }

func (r *recorder) Image(name string, height, width int, oriented bool) int {
	i, known := r.number[name]
	if !known {
		i = len(r.images)
		name = strings.Clone(name)
		r.number[name], r.names, r.images = i, append(r.names, name), append(r.images, said{oriented: oriented})
	}
	if height > 0 && width > 0 && r.images[i].Size == nil {
		r.images[i].Size = []int{height, width}
	}
	return i
}

func (r *recorder) Has(name string) bool { _, known := r.number[name]; return known }

func (r *recorder) Object(image int, o target.Object) {
	one := object{Box: slices.Clone(o.Box[:]), Label: int(o.Label), ID: o.ID, Flags: int(o.Flags)}
	if o.Visible != nil {
		one.Visible = slices.Clone(o.Visible[:])
	}
	for _, p := range o.Keypoints {
		one.Keypoints = append(one.Keypoints, []float32{p.X, p.Y, p.V})
	}
	r.images[image].Objects = append(r.images[image].Objects, one)
}

func (r *recorder) Mask(image int, path string) { r.images[image].Mask = path }

func (r *recorder) Array(image, column int, path string) {
	for len(r.images[image].arrays) <= column {
		r.images[image].arrays = append(r.images[image].arrays, "")
	}
	r.images[image].arrays[column] = path
}

func (r *recorder) Shape(image int, s target.Shape) {
	for k := range s.Polygons {
		s.Polygons[k] = slices.Clone(s.Polygons[k])
	}
	s.Runs = slices.Clone(s.Runs)
	r.images[image].shapes = append(r.images[image].shapes, s)
}

func (r *recorder) Text(image int, object []byte) {
	r.images[image].Text = append(r.images[image].Text, string(object))
}

func (r *recorder) Bad(image int, reason string) {
	r.images[image].Bad = cmp.Or(r.images[image].Bad, reason)
}

func (r *recorder) Twins(f func(image int, id int64)) {
	seen := map[int64]int{}
	for _, m := range r.images {
		for _, o := range m.Objects {
			seen[o.ID]++
		}
	}
	for i, m := range r.images {
		for _, o := range m.Objects {
			if seen[o.ID] > 1 {
				f(i, o.ID)
			}
		}
	}
}

// Find is Open for a Sink, and keeps nothing.
func Find(ctx context.Context, path string, to Sink, o Options) (*Found, error) {
	images, err := imagesAt(ctx, path, &o)
	if err != nil {
		return nil, err
	}
	f := newFinder(ctx, images, to, o)
	defer f.close()
	return f.find(path)
}

// find finds the annotations of a dataset, all of which are of images that it returns by name.
func find(t *testing.T, path string, o Options) (*Found, map[string]said) {
	t.Helper()
	r := newRecorder()
	f, err := Find(t.Context(), path, r, o)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]said{}
	for i, name := range r.names {
		all[name] = r.images[i]
	}
	return f, all
}

// findError is the error of looking for annotations.
func findError(t *testing.T, path string, o Options) error {
	t.Helper()
	_, err := Find(t.Context(), path, newRecorder(), o)
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
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// oracle makes a dataset, and returns what others find in it.
func oracle(t *testing.T, kind, dir string, modules ...string) (want map[string]said) {
	t.Helper()
	python := testkit.Python(t, append(modules, "torchvision", "PIL", "numpy")...)
	out, err := exec.Command(python, "testdata/oracle.py", kind, dir).Output()
	if err != nil {
		t.Fatalf("%v: %s", err, err.(*exec.ExitError).Stderr)
	}
	if err := json.Unmarshal(out, &want); err != nil {
		t.Fatal(err)
	}
	return want
}
