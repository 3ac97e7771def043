package target

import "testing"

// TestScale: parts of an image become pixels of it, once.
func TestScale(t *testing.T) {
	b := NewBuilder("")
	defer b.Close()
	i, j := b.Image("a", 1, 1, true), b.Image("b", 4, 4, true)
	b.Object(j, Object{Box: Box{1, 2, 3, 4}})
	b.Object(i, Object{Box: Box{0.25, 0.5, 0.5, 1}, Keypoints: []Keypoint{{0.5, 0.25, 2}}})
	names := []string{"b", "a", "a", "none"}
	table, _, err := b.Table(len(names), func(row int) string { return names[row] })
	if err != nil {
		t.Fatal(err)
	}
	table.Scale(func(int) (int, int) { return 100, 200 })
	if o := table.Objects(1)[0]; o.Box != (Box{50, 50, 100, 100}) || o.Keypoints[0] != (Keypoint{100, 25, 2}) {
		t.Errorf("%+v", o)
	}
	if o := table.Objects(0)[0]; o.Box != (Box{1, 2, 3, 4}) {
		t.Errorf("%+v", o)
	}
	if h, w, _ := table.Size(2); h != 100 || w != 200 {
		t.Errorf("the size is %d x %d", h, w)
	}
}

// TestText: what is said of one image is one object.
func TestText(t *testing.T) {
	b := NewBuilder("")
	defer b.Close()
	for _, text := range []string{`{"captions":["a"]}`, `{"captions":["b","c"],"n":1}`, `{"n":null}`, `{"n":"x"}`} {
		b.Text(b.Image("i", 0, 0, false), []byte(text))
	}
	table, _, err := b.Table(1, func(int) string { return "i" })
	if err != nil {
		t.Fatal(err)
	}
	if got := string(table.Text(0)); got != `{"captions":["a","b","c"],"n":[1,null,"x"]}` {
		t.Error(got)
	}
}
