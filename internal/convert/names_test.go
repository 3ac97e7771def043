package convert

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestNamesRefused: a dataset in which a raw copy's name is taken, too long, or out of order is
// refused before anything is made, with the names in the message.
func TestNamesRefused(t *testing.T) {
	long := strings.Repeat("x", 248) + ".jpg"
	for _, test := range []struct {
		names  []string
		format Format
		want   string // "": not refused
	}{
		{[]string{"a.jpg", "a.jpeg", "a.png", "a.jpg.q.jpg"}, PPM, ""},
		{[]string{"a.jpg", "a.jpg.png", "a.jpg_2.jpg", "a.jpgx.jpg"}, BMP, ""},
		{[]string{"a.jpg", "A.jpg", "a.JPG", "é.jpg", "\xff.jpg"}, BMP, ""},
		{[]string{"a.jpg", "a.jpg.bmp"}, BMP, "c/a.jpg: no name for its copy: c/a.jpg.bmp is another sample"},
		{[]string{"a.jpg", "a.jpg.ppm"}, PPM, "c/a.jpg.ppm is another sample"},
		{[]string{"a.jpg", "a.jpg (1).jpg"}, BMP, "c/a.jpg.bmp would come after c/a.jpg (1).jpg, and get its number"},
		{[]string{"a.jpg", "a.jpg.b.jpg"}, BMP, "c/a.jpg.bmp would come after c/a.jpg.b.jpg"},
		{[]string{"a.jpg", "a.jpg.pg.png"}, PPM, "c/a.jpg.ppm would come after c/a.jpg.pg.png"},
		{[]string{"a.jpg", "a.jpg.a.jpg", "a.jpg.bmp"}, BMP, "would come after c/a.jpg.a.jpg"},
		{[]string{long}, BMP, "256 bytes are too long"},
		{[]string{long[1:]}, BMP, ""},
	} {
		path, out := filepath.Join(t.TempDir(), "d"), filepath.Join(t.TempDir(), "out")
		for k, name := range test.names {
			write(t, filepath.Join(path, "c", name), pngOf(t, k+1, 2, false))
		}
		was := open(t, path)
		for _, ratio := range []float64{0, 0.5, 1} {
			_, err := Write(context.Background(), was, out, Options{Shares: Shares{Raw: ratio}, Format: test.format})
			if test.want != "" {
				if !errors.Is(err, ErrName) || !strings.Contains(err.Error(), test.want) || len(contents(t, filepath.Dir(out))) != 1 {
					t.Errorf("%q: %v, want %s", test.names, err, test.want)
				}
				continue
			}
			if err != nil {
				t.Fatalf("%q: %v", test.names, err)
			}
			sameSamples(t, was, open(t, out))
			out += "x"
		}
	}
}

// TestNamesInManifests: a manifest has an order of its own, so only equal names are refused,
// wherever they are in it.
func TestNamesInManifests(t *testing.T) {
	dir := t.TempDir()
	names := []string{"x/a.jpg", "x/a.jpg (1).jpg", "x/a.jpg.bmp.png", "x/a.jpg", "x/a.jpg.b.png", "x/a.jpg.bmp"}
	for k, name := range names {
		write(t, filepath.Join(dir, name), pngOf(t, k+1, 2, false))
	}
	path := filepath.Join(dir, "list.csv")
	for _, test := range []struct {
		names []string
		want  string
	}{
		{names[:5], ""},
		{names, "x/a.jpg.bmp is another sample"},
		{[]string{names[5], names[0]}, "x/a.jpg.bmp is another sample"},
	} {
		write(t, path, manifestOf(t, path, test.names, []string{""}))
		_, err := Write(context.Background(), open(t, path), filepath.Join(t.TempDir(), "out"), Options{Shares: Shares{Raw: 1}, Manifest: path})
		if refused := errors.Is(err, ErrName); refused != (test.want != "") || refused && !strings.Contains(err.Error(), test.want) {
			t.Errorf("%q: %v, want %s", test.names, err, test.want)
		}
	}
	elsewhere := filepath.Join(t.TempDir(), "x.png")
	write(t, elsewhere, pngOf(t, 2, 2, false))
	write(t, filepath.Join(dir, "outside", elsewhere), pngOf(t, 3, 3, false))
	write(t, path, manifestOf(t, path, []string{elsewhere, "outside" + elsewhere}, []string{""}))
	_, err := Write(context.Background(), open(t, path), filepath.Join(t.TempDir(), "out"), Options{Manifest: path})
	if !errors.Is(err, ErrName) || !strings.Contains(err.Error(), "would have the same name") {
		t.Errorf("two files of one name: %v", err)
	}
	for _, name := range []string{markerName + "/x.png", scratchName, "list.csv"} {
		write(t, path, manifestOf(t, path, []string{name}, []string{""}))
		_, err := Write(context.Background(), open(t, path), filepath.Join(t.TempDir(), "out"), Options{Manifest: path})
		if !errors.Is(err, ErrName) || !strings.Contains(err.Error(), "reserved") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// FuzzNames: whichever samples of a directory are raw or packed, they keep their order and have
// names of their own, or the directory is refused.
func FuzzNames(f *testing.F) {
	f.Add("x.jpg/x.png/x.bmp/x.jpg.bmp", byte(1))
	f.Add("a.jpg/A.jpg/a.b.jpg/a-b.jpg", byte(2))
	f.Add("a.jpg/a.jpg (1).jpg/a.jpg.png", byte(5))
	f.Fuzz(func(t *testing.T, list string, raw byte) {
		dir := filepath.Join(t.TempDir(), "d")
		for name := range strings.SplitSeq(list, "/") {
			if name != "" && name[0] != '.' && len(name) <= maxName-4 && !strings.Contains(name, "\x00") {
				write(t, filepath.Join(dir, name+".png"), nil)
			}
		}
		ds, err := openDataset(dir)
		if err != nil {
			return
		}
		defer ds.Close()
		n := newNames(ds, Options{Format: Format(raw & 1), Shares: Shares{Raw: 0.5, Packed: 0.5}})
		if n.check(make([]state, ds.Len())) != nil {
			return
		}
		now := filepath.Join(t.TempDir(), "now")
		var want []string
		for i := range ds.Len() {
			name := n.kept(i)
			if raw>>(1+i%7)&1 == 1 {
				exts := n.possible(state{})
				name += exts[i%len(exts)]
			}
			want = append(want, name)
			write(t, filepath.Join(now, name), nil)
		}
		is := open(t, now)
		var got []string
		for i := range is.Len() {
			got = append(got, is.Path(i))
		}
		if !slices.Equal(got, want) {
			t.Errorf("%q became %q", want, got)
		}
	})
}

// TestOriginal: a packed file has the name of its image with .bfs at the end, unless that had no
// extension of an image.
func TestOriginal(t *testing.T) {
	for _, test := range [][3]string{
		{"a.jpg.bfs", "", "a.jpg"}, {"d/a.v2.PNG.BFS", "", "d/a.v2.PNG"}, {"a.jpg", "", ""}, {"a", "", ""}, {".bfs", "\xff\xd8\xff", ""},
		{"a.bfs", "\xff\xd8\xff", "a.jpg"}, {"a.v2.bfs", "\x89PNG\r\n\x1a\n", "a.v2.png"}, {"a.bfs", "BM", "a.bmp"},
		{"a.bfs", "P2\n1 1", "a.pgm"}, {"a.bfs", "P3\n1 1", "a.ppm"}, {"a.bfs", "P5\n1 1", "a.pgm"}, {"a.bfs", "P6\n1 1", "a.ppm"},
		{"a.bfs", "RIFF\x00\x00\x00\x00WEBP", "a.webp"}, {"a.bfs", "no image", "a"},
	} {
		if got := Original(test[0], []byte(test[1])); got != test[2] {
			t.Errorf("%s of %q: %q, want %q", test[0], test[1], got, test[2])
		}
	}
}
