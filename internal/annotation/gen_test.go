package annotation

import (
	"image"
	"image/color"
	_ "image/jpeg"
	_ "image/png"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/batchfs/batchfs/internal/gen"
	"github.com/batchfs/batchfs/internal/target"
	"github.com/batchfs/batchfs/internal/testkit"
)

// TestGenerated: generated datasets with targets show what their annotations say, and the
// annotations are found in their published layouts.
func TestGenerated(t *testing.T) {
	read := func(path string) image.Image {
		t.Helper()
		f, err := os.Open(path)
		testkit.Must(t, err)
		defer f.Close()
		m, _, err := image.Decode(f)
		testkit.Must(t, err)
		return m
	}
	generate := func(o gen.Options, images, pattern string) (*Found, *target.Table, []string) {
		t.Helper()
		testkit.Must(t, gen.Write(t.Context(), o))
		root := filepath.Join(o.Dir, images)
		paths, _ := filepath.Glob(filepath.Join(root, pattern))
		f, err := search(t.Context(), root, Options{Kinds: kindsOf(target.Masks, target.Boxes)})
		testkit.Must(t, err)
		t.Cleanup(func() { _ = f.Builder.Close() })
		name := func(i int) string { return f.nameOf(strings.TrimPrefix(paths[i], root+"/")) }
		table, err := f.Builder.Table(len(paths), name)
		if err != nil || f.Builder.Len() != len(paths) || len(paths) == 0 {
			t.Fatalf("%d images, and annotations of %d: %v", len(paths), f.Builder.Len(), err)
		}
		return f, table, paths
	}

	f, table, paths := generate(gen.Options{Dir: t.TempDir(), Images: 25, Kind: gen.Coco, Seed: 3}, "train2017", "*")
	if len(paths) != 20 || len(f.Classes) != 3 {
		t.Errorf("%d images, %q", len(paths), f.Classes)
	}
	for row, path := range paths {
		m := read(path).(*image.YCbCr)
		width, height := m.Bounds().Dx(), m.Bounds().Dy()
		mask := make([]byte, width*height)
		testkit.Must(t, target.Draw(mask, height, width, table.Shapes(row)))
		objects := table.Objects(row)
		if len(objects) == 0 {
			t.Fatalf("%s has no objects", path)
		}
		last := objects[len(objects)-1] // nothing covers it
		x, y := int(last.Box[0]+last.Box[2])/2, int(last.Box[1]+last.Box[3])/2
		if got := int32(mask[y*width+x]); got != last.Label+1 {
			t.Errorf("%s: class %d in the middle of an object with label %d", path, got, last.Label)
		}
		in, far := m.YCbCrAt(x, y), 0
		for _, v := range []uint8{in.Y, in.Cb, in.Cr} {
			far = max(far, int(v)-128, 128-int(v))
		}
		if far < 25 {
			t.Errorf("%s: %v in the middle of a shape is as gray as what is around it", path, in)
		}
	}

	f, table, paths = generate(gen.Options{Dir: t.TempDir(), Images: 5, Kind: gen.Cityscape, Targets: true, Seed: 3}, "leftImg8bit/train", "*/*")
	people := 0
	for row := range paths {
		mask := read(filepath.Join(f.Masks.Path, table.Mask(row)))
		for k, o := range table.Objects(row) {
			people++
			seen := false
			for i := 0; o.Visible != nil && i < mask.Bounds().Dx()*mask.Bounds().Dy(); i++ {
				x, y := float32(i%mask.Bounds().Dx()), float32(i/mask.Bounds().Dx())
				v := o.Visible
				inside := x >= v[0] && x < v[2] && y >= v[1] && y < v[3]
				seen = seen || inside && mask.At(int(x), int(y)) == color.Gray{Y: 24} // person
			}
			if !seen {
				t.Errorf("%s: no pixel of person %d is one", paths[row], k)
			}
		}
	}
	if people == 0 {
		t.Error("nobody is in the streets")
	}
}
