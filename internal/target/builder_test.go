package target

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/batchfs/batchfs/internal/facts"
	"github.com/batchfs/batchfs/internal/testkit"
)

// told is everything that a Builder was told about an image.
type told struct {
	Height, Width   int
	Oriented        bool
	Objects         []Object
	Shapes          []Shape
	Mask, Text, Bad string
	Arrays          [2]string
}

const images = 100

// nameOf is the name of image i, of which the first is no text.
func nameOf(i int) string { return []string{"only a mask \xff", fmt.Sprint("i", i)}[min(i, 1)] }

// filled is a Builder that was told about n objects, and about everything else possible, in no
// order; and what it was told.
func filled(dir string, n int) (*Builder, []told) {
	r := rand.New(rand.NewPCG(27, 3))
	b, all := NewBuilder(dir), make([]told, images+2)
	for range n {
		i := 1 + r.IntN(images)
		height, width, oriented := 50, 60+i, i%7 == 0
		all[i].Height, all[i].Width, all[i].Oriented = height, width, oriented
		image := b.Image(nameOf(i), height, width, oriented)
		id := r.Int64() - r.Int64()
		o := Object{Box: Box{1, 2, 3, float32(id % 9)}, ID: id, Label: int32(i), Flags: Flags(id & 7)}
		if id%101 == 0 {
			o.Keypoints = []Keypoint{{float32(i), 0.5, 2}, {4, 5, 1}}[:1+i%2]
		}
		if id%105 == 0 {
			o.Visible = &Box{0, 0, 0.5, float32(id % 5)}
		}
		b.Object(image, o)
		all[i].Objects = append(all[i].Objects, o)
		if id%1001 < 300 && n < 10_000 {
			s := Shape{Class: int32(i - 5), Polygons: [][]float64{{1, 2, 3, 4, 5, float64(id)}, {0.5, -1, 1e9, 7, 8, 9.1}}}
			if id%2 == 0 {
				s = Shape{Class: 3, Runs: []uint32{uint32(id), 2, 1 << 31}}
			}
			b.Shape(image, s)
			all[i].Shapes = append(all[i].Shapes, s)
		}
	}
	at := func(i int) int { return b.Image(nameOf(i), 0, 0, false) }
	b.Mask(at(0), "m/x.png")
	b.Array(at(5), 1, "x/\xff.npy")
	b.Array(at(2), 0, "y.npy")
	b.Text(at(5), []byte(`{"a": 1}`))
	b.Bad(at(6), "a file: entry: rule")
	b.Bad(at(6), "another")
	all[0].Mask, all[5].Text, all[5].Arrays[1], all[2].Arrays[0], all[6].Bad = "m/x.png", `{"a":1}`, "x/\xff.npy", "y.npy", "a file: entry: rule"
	return b, all
}

// tableOf is the table of all names, and of one that nobody has.
func tableOf(t *testing.T, b *Builder) *Table {
	t.Helper()
	table, err := b.Table(images+2, nameOf)
	testkit.Must(t, err)
	return table
}

// allOf is what a table says.
func allOf(table *Table) (all []told) {
	for row := range table.image {
		s := told{Objects: table.Objects(row), Shapes: table.Shapes(row), Mask: table.Mask(row), Text: string(table.Text(row)), Bad: table.Bad(row)}
		s.Height, s.Width, s.Oriented = table.Size(row)
		s.Arrays = [2]string{table.Array(row, 0), table.Array(row, 1)}
		if table.Count(row) != len(s.Objects) || table.Array(row, 2) != "" {
			s.Bad = "the count is another, or there is another array"
		}
		all = append(all, s)
	}
	return all
}

// TestTable: what was said about images comes back unchanged, also from the file for data that does
// not fit into memory, and from the file that stores everything.
func TestTable(t *testing.T) {
	for _, n := range []int{0, 3000, 600_000} {
		b, want := filled(t.TempDir(), n)
		if inFile := b.memory.mapped > 0; inFile != (n > 500_000) {
			t.Errorf("%d objects: %d bytes are in a file", n, b.memory.mapped)
		}
		if b.Objects() != n {
			t.Errorf("%d objects, not %d", b.Objects(), n)
		}
		table := tableOf(t, b)
		if got := allOf(table); !reflect.DeepEqual(got, want) {
			t.Fatalf("%d objects: another is said", n)
		}
		path := filepath.Join(t.TempDir(), "new", "a.targets")
		testkit.Must(t, b.Save(path, []byte(`{"about":2}`)))
		again, about, err := Load(path)
		testkit.Must(t, err)
		kept := tableOf(t, again)
		if string(about) != `{"about":2}` || !reflect.DeepEqual(allOf(kept), want) || kept.Digest() != table.Digest() ||
			kept.Keypoints != table.Keypoints || kept.HasVisible() != table.HasVisible() || n > 0 && kept.Keypoints != 2 {
			t.Errorf("%s, or what was said is another", about)
		}
		if again.memory.heap() != 0 {
			t.Errorf("%d bytes are not in the file", again.memory.heap())
		}
		again.Bad(again.Image(nameOf(2), 0, 0, false), "its mask is missing")
		if changed := tableOf(t, again); changed.Bad(2) == "" || changed.Digest() == table.Digest() {
			t.Error("nothing can be added")
		}
		if err := errors.Join(b.Close(), again.Close()); err != nil {
			t.Error(err)
		}
	}
	path := filepath.Join(t.TempDir(), "empty")
	testkit.Must(t, NewBuilder("").Save(path, nil))
	if b, _, err := Load(path); err != nil || b.Len() != 0 {
		t.Errorf("nothing was kept: %v", err)
	}
}

// TestSays: the first size that is said counts, and which images have anything; labels may change.
func TestSays(t *testing.T) {
	for what, say := range map[string]func(b *Builder, i int){
		"":       func(b *Builder, i int) {},
		"mask":   func(b *Builder, i int) { b.Mask(i, "m.png") },
		"text":   func(b *Builder, i int) { b.Text(i, []byte("{}")) },
		"array":  func(b *Builder, i int) { b.Array(i, 1, "a.npy") },
		"object": func(b *Builder, i int) { b.Object(i, Object{Label: 1<<23 + 1, Flags: Crowd, Visible: &Box{}}) },
		"shape":  func(b *Builder, i int) { b.Shape(i, Shape{}) },
		"bad":    func(b *Builder, i int) { b.Text(i, []byte("[]")) },
	} {
		b := NewBuilder("")
		other, i := b.Image("other", 0, 0, false), b.Image("a", 0, 0, true)
		say(b, i)
		b.Image("a", 3, 4, true)
		b.Image("a", 5, 6, false)
		b.Relabel(func(_, _ int, label int32) int32 { return label - 1<<23 })
		table, err := b.Table(1, func(int) string { return "a" })
		testkit.Must(t, err)
		if h, w, oriented := table.Size(0); h != 3 || w != 4 || !oriented {
			t.Errorf("%s: the size is %d x %d", what, h, w)
		}
		if b.Says(i) != (what != "") || b.Says(other) || !b.Has("a") || b.Has("b") || b.Len() != 2 || b.Path(i) != "a" {
			t.Errorf("%s: another image has it", what)
		}
		for _, o := range table.Objects(0) {
			if o.Label != 1 || o.Flags != Crowd || o.Visible == nil {
				t.Errorf("%+v", o)
			}
		}
		b.Object(i, Object{Label: 1 << 24})
		if table.Bad(0) == "" || table.Count(0) != b.Objects() {
			t.Error("a label of more than 24 bits")
		}
	}
}

// TestTexts: texts about one image become one object; values under one key become a list. A text
// that is not an object is bad.
func TestTexts(t *testing.T) {
	b := NewBuilder("")
	for name, texts := range map[string][]string{
		`{"c":["one","two",3],"d":null}`:          {"{\"c\":\n \"one\"}", `{"c":"two","d":null}`, `{"c":3}`},
		`{"captions":["a","b","c"],"n":[1,null]}`: {`{"captions":["a"]}`, `{"captions":["b","c"],"n":1}`, `{"n":null}`},
		"{\"c\":[\"\ufffd\ufffda\",\"é\"]}":       {"{\"c\":\"\xff\xfea\"}", "{\"c\":\"é\"}"},
		"too long":                                {fmt.Sprintf(`{"a":%q}`, strings.Repeat("x", maxText))},
		"a list":                                  {"[1]"},
		"half":                                    {`{"c":1}`, `{"c":`},
	} {
		i := b.Image(name, 0, 0, false)
		for _, text := range texts {
			b.Text(i, []byte(text))
		}
		table, err := b.Table(1, func(int) string { return name })
		testkit.Must(t, err)
		if isObject := name[0] == '{'; isObject && string(table.Text(0)) != name || isObject != (table.Bad(0) == "") {
			t.Errorf("%s: %s, %s", name, table.Text(0), table.Bad(0))
		}
	}
}

// TestMemoryOfText: text takes memory while it is on the heap, and none in a file that was loaded,
// unless more was said since.
func TestMemoryOfText(t *testing.T) {
	const size = 60 << 10
	text := fmt.Appendf(nil, `{"a":%q}`, strings.Repeat("x", size))
	memory := func(b *Builder) int64 {
		table, err := b.Table(1, func(int) string { return "a" })
		testkit.Must(t, err)
		return table.MemoryBytes()
	}
	b, path := NewBuilder(""), filepath.Join(t.TempDir(), "a")
	b.Text(b.Image("a", 0, 0, false), text)
	testkit.Must(t, b.Save(path, []byte(`1`)))
	loaded, _, err := Load(path)
	testkit.Must(t, err)
	defer loaded.Close()
	if there, here := memory(loaded), memory(b); there > size/2 || here < size {
		t.Errorf("%d bytes if loaded, %d if not", there, here)
	}
	loaded.Text(loaded.Image("a", 0, 0, false), []byte(`{"b":1}`))
	if n := memory(loaded); n < size {
		t.Errorf("%d bytes if more was said", n)
	}
}

// TestDigest: the digest depends on what is said about samples, not on the order in which it was
// said.
func TestDigest(t *testing.T) {
	digest := func(order []string, change func(*Object)) string {
		b := NewBuilder("")
		for _, name := range order {
			o := Object{Box: Box{0, 0, float32(name[0]), 1}, Keypoints: []Keypoint{{1, 2, 2}}}
			change(&o)
			b.Object(b.Image(name, 5, 5, false), o)
		}
		table, err := b.Table(2, func(i int) string { return string("ab"[i]) })
		testkit.Must(t, err)
		return table.Digest()
	}
	same := func(*Object) {}
	first := digest([]string{"a", "b"}, same)
	if digest([]string{"b", "a"}, same) != first || digest([]string{"stray", "b", "a"}, same) != first {
		t.Error("the digest depends on the order of images, or on those that are no samples")
	}
	for i, change := range []func(*Object){
		func(o *Object) { o.Box[1] = 0.5 }, func(o *Object) { o.Label = 1 }, func(o *Object) { o.ID = 1 << 40 }, func(o *Object) { o.Flags = Crowd },
		func(o *Object) { o.Visible = &Box{} }, func(o *Object) { o.Keypoints[0].V = 1 },
	} {
		if digest([]string{"a", "b"}, change) == first {
			t.Errorf("change %d changes no digest", i)
		}
	}
}

// TestScale: parts of an image become pixels of it, once.
func TestScale(t *testing.T) {
	b := NewBuilder("")
	i, j := b.Image("a", 1, 1, true), b.Image("b", 4, 4, true)
	b.Object(j, Object{Box: Box{1, 2, 3, 4}})
	b.Object(i, Object{Box: Box{0.25, 0.5, 0.5, 1}, Keypoints: []Keypoint{{0.5, 0.25, 2}}})
	table, err := b.Table(2, func(row int) string { return string("ba"[row]) })
	testkit.Must(t, err)
	table.Scale(func(int) (int, int) { return 100, 200 })
	if o := table.Objects(1)[0]; o.Box != (Box{50, 50, 100, 100}) || o.Keypoints[0] != (Keypoint{100, 25, 2}) {
		t.Errorf("%+v", o)
	}
	if o := table.Objects(0)[0]; o.Box != (Box{1, 2, 3, 4}) {
		t.Errorf("%+v", o)
	}
	if h, w, _ := table.Size(1); h != 100 || w != 200 {
		t.Errorf("the size is %d x %d", h, w)
	}
}

// keptFile is a file in which all is kept.
func keptFile(t testing.TB) []byte {
	path := filepath.Join(t.TempDir(), "a")
	b, _ := filled("", 3000)
	testkit.Must(t, b.Save(path, []byte(`1`)))
	data, err := os.ReadFile(path)
	testkit.Must(t, err)
	return data
}

// TestDamaged: an incomplete file is refused, whatever is in it.
func TestDamaged(t *testing.T) {
	path, good := filepath.Join(t.TempDir(), "a"), keptFile(t)
	check := func(what string, data []byte) {
		t.Helper()
		testkit.Must(t, os.WriteFile(path, data, 0o600))
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

// FuzzKept: a file that claims to be complete may hold anything.
func FuzzKept(f *testing.F) {
	good := keptFile(f)
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
			table, err := b.Table(images, nameOf)
			testkit.Must(t, err)
			_, _ = allOf(table), table.Digest()
		}
	})
}

// TestLoadedFileMayChange: what was loaded stays, whatever happens to its file.
func TestLoadedFileMayChange(t *testing.T) {
	b, want := filled("", 3000)
	defer b.Close()
	dir := t.TempDir()
	path := filepath.Join(dir, "a")
	testkit.Must(t, b.Save(path, []byte(`1`)))
	loaded, _, err := Load(path)
	testkit.Must(t, err)
	defer loaded.Close()
	testkit.Must(t, os.Truncate(path, 0))
	if !reflect.DeepEqual(allOf(tableOf(t, loaded)), want) {
		t.Error("another is said")
	}
	if names, _ := os.ReadDir(dir); len(names) != 1 {
		t.Errorf("left behind: %v", names)
	}
}
