package target

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"testing"

	"github.com/batchfs/batchfs/internal/facts"
)

// filled is a Builder of all that there can be, in no order.
func filled() *Builder {
	b := NewBuilder("")
	for i := range 3000 {
		image := b.Image(fmt.Sprint("i", i*7%100), 50, 60+i*7%100, i%7 == 0)
		o := Object{Box: Box{1, 2, 3, float32(i)}, Label: int32(i % 9), ID: int64(i), Flags: Flags(i % 8)}
		if i%3 == 0 && i > 100 {
			o.Keypoints = []Keypoint{{float32(i), 2, 2}, {4, 5, 1}}[:1+i%2]
		}
		if i%5 == 0 {
			o.Visible = &Box{1, 2, 2, float32(i)}
		}
		b.Object(image, o)
		if i%11 == 0 {
			b.Shape(image, Shape{Class: int32(i % 9), Polygons: [][]float64{{1, 2, 3, 4, 5, float64(i)}, {1, 1, 2, 2, 3, 1}}})
			b.Shape(image, Shape{Class: 3, Runs: []uint32{uint32(i), 2}})
		}
	}
	b.Text(b.Image("i5", 0, 0, false), []byte(`{"a":1}`))
	b.Mask(b.Image("only a mask \xff", 0, 0, false), "m/x.png")
	b.Array(b.Image("i5", 0, 0, false), 1, "x/\xff.npy")
	b.Array(b.Image("i2", 0, 0, false), 0, "y.npy")
	b.Bad(b.Image("i6", 0, 0, false), "a file: entry: rule")
	return b
}

// everything is all that a table says of rows.
func everything(t *testing.T, b *Builder) (all []any) {
	t.Helper()
	const n = 102
	table, _, err := b.Table(n, func(i int) string { return []string{"only a mask \xff", fmt.Sprint("i", i)}[min(i, 1)] })
	if err != nil {
		t.Fatal(err)
	}
	for row := range n {
		h, w, oriented := table.Size(row)
		all = append(all, h, w, oriented, table.Bad(row), table.Mask(row), table.Array(row, 0), table.Array(row, 1), table.Array(row, 2), string(table.Text(row)), table.Shapes(row))
		all = append(all, table.Count(row), table.Objects(row))
	}
	return append(all, table.Digest(), table.Keypoints, table.HasVisible())
}

// TestKept: what comes back is what was said.
func TestKept(t *testing.T) {
	path := filepath.Join(t.TempDir(), "new", "a.targets")
	b := filled()
	want := everything(t, b)
	if err := b.Save(path, []byte(`{"about":2}`)); err != nil {
		t.Fatal(err)
	}
	again, about, err := Load(path)
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	if string(about) != `{"about":2}` || !reflect.DeepEqual(everything(t, again), want) {
		t.Errorf("%s, or what was said is another", about)
	}
	if again.memory.heap() != 0 {
		t.Errorf("%d bytes are not in the file", again.memory.heap())
	}
	again.Bad(again.Image("i1", 0, 0, false), "its mask is missing")
	if reflect.DeepEqual(everything(t, again), want) {
		t.Error("nothing can be added")
	}
	empty := filepath.Join(t.TempDir(), "empty")
	if err := NewBuilder("").Save(empty, nil); err != nil {
		t.Fatal(err)
	}
	if b, _, err := Load(empty); err != nil || len(b.images) != 0 {
		t.Errorf("nothing was kept: %v", err)
	}
}

// TestDamaged: a file that is not whole is refused, whatever is in it.
func TestDamaged(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a")
	if err := filled().Save(path, []byte(`1`)); err != nil {
		t.Fatal(err)
	}
	good, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	check := func(what string, data []byte) {
		t.Helper()
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		if _, _, err := Load(path); !errors.Is(err, ErrKept) {
			t.Errorf("%s: %v", what, err)
		}
	}
	for n := 0; n < len(good); n += 1 + n/3 {
		check("cut off", good[:n])
		changed := bytes.Clone(good)
		changed[n] ^= 4
		check("changed", changed)
	}
	check("longer", append(bytes.Clone(good), 0))
}

// FuzzKept: a file that says of itself that it is whole may hold anything.
func FuzzKept(f *testing.F) {
	path := filepath.Join(f.TempDir(), "a")
	if err := filled().Save(path, []byte(`1`)); err != nil {
		f.Fatal(err)
	}
	good, err := os.ReadFile(path)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(uint8(1), uint32(len(good)/2), byte(255))
	f.Add(uint8(0), uint32(20), byte('9'))
	f.Add(uint8(1), uint32(0), byte(3))
	f.Add(uint8(2), uint32(0), byte(3))
	f.Fuzz(func(t *testing.T, record uint8, at uint32, v byte) {
		var changed bytes.Buffer
		w := facts.NewWriter(&changed)
		err := facts.Read(bytes.NewReader(good), int64(len(good)), func(kind byte, payload []byte, _ int64) error {
			if record--; record == 255 {
				payload[int(at)%len(payload)] = v
			}
			w.Put(kind, payload)
			return nil
		})
		if err != nil || w.Flush() != nil {
			t.Fatal(err)
		}
		b := NewBuilder("")
		if _, err := b.open(changed.Bytes()); err == nil {
			everything(t, b)
		}
	})
}
