package target

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
)

// TestTableGroups: objects that come in any order are in the order of their images, and among these
// as they came; what does not fit into memory is in a file.
func TestTableGroups(t *testing.T) {
	r := rand.New(rand.NewPCG(27, 3))
	for _, n := range []int{0, 1, 1000, 600_000} {
		const images = 13
		b, want := NewBuilder(t.TempDir()), map[int][]int64{}
		name := func(i int) string { return string(rune('a' + i)) }
		for range n {
			i := r.IntN(images)
			id := r.Int64() - r.Int64()
			o := Object{Box: Box{0, 0, 1, 1}, ID: id, Label: int32(i), Flags: Flags(id & 7)}
			if id%1001 == 0 {
				o.Keypoints = []Keypoint{{float32(i), 0.5, 2}}
			}
			if id%1005 == 0 {
				o.Visible = &Box{0, 0, 0.5, 1}
			}
			b.Object(b.Image(name(i), 0, 0, false), o)
			want[i] = append(want[i], id)
		}
		if inFile := b.memory.mapped > 0; inFile != (n > 500_000) {
			t.Errorf("%d objects: %d bytes are in a file", n, b.memory.mapped)
		}
		table, _, err := b.Table(images+2, name)
		if err != nil {
			t.Fatal(err)
		}
		for i := range images + 2 {
			if table.Count(i) != len(want[i]) {
				t.Fatalf("image %d has %d objects, not %d", i, table.Count(i), len(want[i]))
			}
			for k, o := range table.Objects(i) {
				id := want[i][k]
				if o.ID != id || o.Label != int32(i) || o.Flags != Flags(id&7) || (len(o.Keypoints) > 0) != (id%1001 == 0) || (o.Visible != nil) != (id%1005 == 0) {
					t.Fatalf("object %d of image %d is %+v, not %d", k, i, o, id)
				}
			}
		}
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestTexts: objects are joined, and what is none is bad.
func TestTexts(t *testing.T) {
	b := NewBuilder("")
	i, bad := b.Image("a", 0, 0, false), b.Image("b", 0, 0, false)
	for _, text := range []string{"{\"c\":\n \"one\"}", `{"c":"two","d":null}`, `{"c":3}`} {
		b.Text(i, []byte(text))
	}
	long, list := b.Image("c", 0, 0, false), b.Image("d", 0, 0, false)
	b.Text(long, fmt.Appendf(nil, `{"a":%q}`, strings.Repeat("x", maxText)))
	b.Text(list, []byte("[1]"))
	if b.images[long].bad == "" || b.images[list].bad == "" || b.images[i].bad != "" {
		t.Error("text that is too long, or a list, is text")
	}
	b.Text(bad, []byte(`{"c":1}`))
	b.Text(bad, []byte(`{"c":`))
	table, strays, err := b.Table(1, func(int) string { return "a" })
	if err != nil || strays != 3 {
		t.Fatal(strays, err)
	}
	if got, want := string(table.Text(0)), `{"c":["one","two",3],"d":null}`; got != want {
		t.Errorf("%s, not %s", got, want)
	}
	if b.images[bad].bad == "" {
		t.Error("half an object is text")
	}
}

// TestShapes: shapes come back as they were given.
func TestShapes(t *testing.T) {
	b := NewBuilder("")
	other, i := b.Image("b", 9, 9, false), b.Image("a", 9, 9, false)
	b.Shape(i, Shape{Class: 3, Polygons: [][]float64{{1, 2, 3, 4, 5, 6.1}, {0.5, -1, 1e9, 7, 8, 9}}})
	b.Shape(other, Shape{Class: 1, Runs: []uint32{1}})
	b.Shape(i, Shape{Class: -1, Runs: []uint32{3, 4, 1 << 31}})
	table, _, err := b.Table(1, func(int) string { return "a" })
	if err != nil {
		t.Fatal(err)
	}
	got := table.Shapes(0)
	if len(got) != 2 || got[0].Class != 3 || got[0].Polygons[0][5] != 6.1 || got[0].Polygons[1][2] != 1e9 || got[1].Class != -1 || got[1].Runs[2] != 1<<31 || got[1].Polygons != nil {
		t.Errorf("%+v", got)
	}
}

// TestDigest: the digest follows what is said of samples, and not the order in which it was said.
func TestDigest(t *testing.T) {
	digest := func(order []string, change func(*Object)) string {
		b := NewBuilder("")
		for _, name := range order {
			o := Object{Box: Box{0, 0, float32(name[0]), 1}, Keypoints: []Keypoint{{1, 2, 2}}}
			change(&o)
			b.Object(b.Image(name, 5, 5, false), o)
		}
		table, _, err := b.Table(2, func(i int) string { return string("ab"[i]) })
		if err != nil {
			t.Fatal(err)
		}
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

// BenchmarkTable makes a table of ten million boxes in random order.
func BenchmarkTable(b *testing.B) {
	const n, images = 10_000_000, 1_000_000
	names := make([]string, images)
	for i := range names {
		names[i] = string(rune(i%0xd000)) + string(rune(1+i/0xd000))
	}
	for b.Loop() {
		builder := NewBuilder(b.TempDir())
		for i := range n {
			builder.Object(builder.Image(names[i*7919%images], 0, 0, false), Object{Box: Box{0, 0, 1, 1}, ID: int64(i)})
		}
		t, _, err := builder.Table(images, func(i int) string { return names[i] })
		if err != nil {
			b.Fatal(err)
		}
		b.ReportMetric(float64(t.MemoryBytes())/n, "heapB/box")
		b.ReportMetric(float64(builder.memory.mapped)/n, "fileB/box")
		builder.Close()
	}
}
