package annotation

import (
	"bytes"
	"image"
	"image/jpeg"
	"image/png"
	"os"
	"path/filepath"
	"testing"

	"github.com/batchfs/batchfs/internal/gen"
	"github.com/batchfs/batchfs/internal/target"
)

// TestGenerated: what is generated with targets shows what its annotations say, and is found where
// they are published.
func TestGenerated(t *testing.T) {
	read := func(path string, decode func(*bytes.Reader) (image.Image, error)) image.Image {
		t.Helper()
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		m, err := decode(bytes.NewReader(data))
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	find := func(o gen.Options, images string) (*Found, *target.Table, []string) {
		t.Helper()
		if err := gen.Write(t.Context(), o); err != nil {
			t.Fatal(err)
		}
		var paths []string
		root := filepath.Join(o.Dir, images)
		for _, pattern := range []string{"*", "*/*"} {
			files, _ := filepath.Glob(filepath.Join(root, pattern))
			for _, file := range files {
				if info, err := os.Stat(file); err == nil && !info.IsDir() {
					name, _ := filepath.Rel(root, file)
					paths = append(paths, name)
				}
			}
		}
		found, err := Open(t.Context(), root, Options{Kinds: kindsOf(target.Masks, target.Boxes)})
		if err != nil {
			t.Fatal(err)
		}
		table, strays, err := found.Builder.Table(len(paths), func(i int) string { return found.Name(paths[i]) })
		if err != nil || strays > 0 || len(paths) == 0 {
			t.Fatalf("%d images, and %d annotations of others: %v", len(paths), strays, err)
		}
		return found, table, paths
	}

	o := gen.Options{Dir: filepath.Join(t.TempDir(), "shapes"), Images: 25, Kind: gen.Coco, Seed: 3}
	found, table, paths := find(o, "train2017")
	if len(paths) != 20 || len(found.Classes) != 3 {
		t.Errorf("%d images, %q", len(paths), found.Classes)
	}
	for row, path := range paths {
		m := read(filepath.Join(found.Images, path), func(r *bytes.Reader) (image.Image, error) { return jpeg.Decode(r) })
		width, height := m.Bounds().Dx(), m.Bounds().Dy()
		mask := make([]byte, width*height)
		if err := target.Draw(mask, height, width, table.Shapes(row)); err != nil {
			t.Fatal(err)
		}
		objects := table.Objects(row)
		if len(objects) == 0 {
			t.Fatalf("%s has no objects", path)
		}
		last := objects[len(objects)-1] // nothing covers it
		x, y := int(last.Box[0]+last.Box[2])/2, int(last.Box[1]+last.Box[3])/2
		if got := int32(mask[y*width+x]); got != last.Label+1 {
			t.Errorf("%s: class %d in the middle of an object with label %d", path, got, last.Label)
		}
		inside, far := m.(*image.YCbCr).YCbCrAt(x, y), 0
		for _, v := range []uint8{inside.Y, inside.Cb, inside.Cr} {
			far = max(far, int(v)-128, 128-int(v))
		}
		if far < 25 {
			t.Errorf("%s: %v in the middle of a shape is as gray as what is around it", path, inside)
		}
	}

	o = gen.Options{Dir: filepath.Join(t.TempDir(), "city"), Images: 5, Kind: gen.Cityscape, Targets: true, Seed: 3}
	found, table, paths = find(o, filepath.Join("leftImg8bit", "train"))
	people := 0
	for row := range paths {
		mask := read(filepath.Join(found.Masks.Path, table.Mask(row)), func(r *bytes.Reader) (image.Image, error) { return png.Decode(r) }).(*image.Gray)
		for k, o := range table.Objects(row) {
			people++
			v := o.Visible
			if v == nil {
				t.Fatalf("nothing is said to be visible of person %d of %s", k, paths[row])
			}
			seen := false
			for y := int(v[1]); y < int(v[3]); y++ {
				for x := int(v[0]); x < int(v[2]); x++ {
					seen = seen || mask.GrayAt(x, y).Y == 24 // person
				}
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
