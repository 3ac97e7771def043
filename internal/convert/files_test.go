package convert

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/batchfs/batchfs/internal/dataset"
	"github.com/batchfs/batchfs/internal/option"
	"github.com/batchfs/batchfs/internal/testkit"
	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
)

// TestSmallTree checks the result for every kind of file, by name, with links and with copies.
func TestSmallTree(t *testing.T) {
	for _, copies := range []bool{false, true} {
		t.Run(fmt.Sprint("copies: ", copies), func(t *testing.T) {
			path, dir := small(t), t.TempDir()
			if copies {
				dir = otherFileSystem(t)
			}
			out := filepath.Join(dir, "out")
			r, err := Write(context.Background(), open(t, path), out, Options{Shares: Shares{Raw: 1}})
			testkit.Must(t, err)
			var names []string
			for name, text := range contents(t, out) {
				if text[0] != 'd' {
					names = append(names, name)
				}
			}
			slices.Sort(names)
			want := []string{
				markerName, "a/0.png.bmp", "a/1.jpg.bmp", "a/1.png.bmp", "a/2.bmp", "a/3.png", "b/0.png.bmp",
				"b/deep/x.png.bmp", "b/deep/y.jpeg", "b/deep/z.png.bmp", "b/gone.png",
			}
			slices.Sort(want)
			if diff := cmp.Diff(want, names); diff != "" {
				t.Error(diff)
			}
			was, is := open(t, path), open(t, out)
			if diff := cmp.Diff(was.Classes, is.Classes); diff != "" {
				t.Error(diff)
			}
			for i := range was.Len() {
				if was.Label(i) != is.Label(i) || (was.Problem(i) == "") != (is.Problem(i) == "") {
					t.Errorf("%s, %d, %q was %s, %d, %q", is.Path(i), is.Label(i), is.Problem(i), was.Path(i), was.Label(i), was.Problem(i))
				}
			}
			bad := []string{"a/3.png", "b/deep/y.jpeg", "b/gone.png"}
			for k, u := range r.Unreadable {
				if k >= len(bad) || u.Path != was.Path(u.ID) || !slices.Contains(bad, u.Path) || u.Reason == "" {
					t.Errorf("unreadable: %+v", u)
				}
			}
			kept := r.Linked
			if copies {
				kept = r.Copied + r.Cloned
			}
			if r.Raw != 7 || r.Converted != 6 || r.AlreadyRaw != 1 || kept != 3 || r.Symlinked != 1 || len(r.Unreadable) != 3 {
				t.Errorf("reported %+v", r)
			}
			sameFile(t, filepath.Join(path, "a/3.png"), filepath.Join(out, "a/3.png"), !copies)
		})
	}
}

// sameFile compares content, permissions and time, and whether the inode is the same.
func sameFile(t *testing.T, a, b string, linked bool) {
	t.Helper()
	was, err := os.Stat(a)
	testkit.Must(t, err)
	is, err := os.Stat(b)
	testkit.Must(t, err)
	if os.SameFile(was, is) != linked || was.Mode() != is.Mode() || !was.ModTime().Equal(is.ModTime()) {
		t.Errorf("%s: %v %v, was %v %v; the same: %v", b, is.Mode(), is.ModTime(), was.Mode(), was.ModTime(), os.SameFile(was, is))
	}
	before, _ := os.ReadFile(a)
	after, err := os.ReadFile(b)
	if err != nil || !bytes.Equal(before, after) {
		t.Errorf("%s has another content than %s: %v", b, a, err)
	}
}

// TestPermissions: the result makes nothing readable that was not.
func TestPermissions(t *testing.T) {
	path := small(t)
	testkit.Must(t, os.Chmod(filepath.Join(path, "a"), 0o700))
	testkit.Must(t, os.Chmod(filepath.Join(path, "b/0.png"), 0o400))
	testkit.Must(t, os.Chmod(path, 0o710))
	out, _ := convert(t, path, Options{Shares: Shares{Raw: 1}})
	for name, want := range map[string]fs.FileMode{"": 0o710, "a": 0o700, "b": 0o755, "a/0.png.bmp": 0o640, "b/0.png.bmp": 0o400} {
		info, err := os.Stat(filepath.Join(out, name))
		if err != nil || info.Mode().Perm() != want {
			t.Errorf("%s has %v, want %v; %v", name, info.Mode(), want, err)
		}
	}
}

// TestLinks: links to files and directories are followed; the result has only the links that it
// needs.
func TestLinks(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "store/1"), pngOf(t, 3, 3, false))
	write(t, filepath.Join(dir, "elsewhere/x.png"), pngOf(t, 2, 3, false))
	write(t, filepath.Join(dir, "elsewhere/y.png"), pngOf(t, 3, 2, false))
	testkit.Must(t, os.MkdirAll(filepath.Join(dir, "d/a"), 0o755))
	for link, to := range map[string]string{"d/b": "../elsewhere", "d/a/1.png": "../../store/1", "d/a/2.png": "../../store/1"} {
		testkit.Must(t, os.Symlink(to, filepath.Join(dir, link)))
	}
	path := filepath.Join(dir, "d")
	for _, ratio := range []float64{0, 0.5, 1} {
		out, r := convert(t, path, Options{Shares: Shares{Raw: ratio}})
		sameSamples(t, open(t, path), open(t, out))
		for name, text := range contents(t, out) {
			if text[0] == 'L' {
				t.Errorf("%s is a link", name)
			}
		}
		if r.Linked+r.Converted != 4 {
			t.Errorf("reported %+v", r)
		}
	}
}

// TestWorkersDoNotMatter: one worker with little memory makes the same bytes and names as many
// workers.
func TestWorkersDoNotMatter(t *testing.T) {
	path := mixed(t)
	one, _ := convert(t, path, Options{Shares: Shares{Raw: 0.5}, Seed: 2, Workers: 1, Memory: 1})
	many, _ := convert(t, path, Options{Shares: Shares{Raw: 0.5}, Seed: 2, Workers: 9})
	if diff := cmp.Diff(contents(t, one), contents(t, many)); diff != "" {
		t.Error(diff)
	}
}

// TestSourceChanges: a file that is replaced or removed during the conversion ends the run,
// whether it is kept or made raw.
func TestSourceChanges(t *testing.T) {
	for _, ratio := range []float64{0, 1} {
		for name, change := range map[string]func(path string) error{
			"replaced": func(path string) error { return os.WriteFile(path, []byte("another"), 0o600) },
			"removed":  os.Remove,
			"touched":  func(path string) error { return os.Chtimes(path, time.Time{}, time.Unix(1, 0)) },
		} {
			path, out := small(t), filepath.Join(t.TempDir(), "out")
			ds := open(t, path)
			o := Options{Shares: Shares{Raw: ratio}, Workers: 1, Progress: func(done, _ int64) {
				if done == 1 {
					if err := change(filepath.Join(path, "b/deep/z.png")); err != nil {
						t.Error(err)
					}
				}
			}}
			_, err := Write(context.Background(), ds, out, o)
			var file *dataset.FileError
			if !errors.Is(err, ErrSource) || !errors.As(err, &file) || file.Path != "b/deep/z.png" {
				t.Errorf("%s at %v: %v", name, ratio, err)
			}
			if _, err := os.Stat(out); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("%s at %v: there is a result: %v", name, ratio, err)
			}
		}
	}
}

// TestSpecialFiles: anything but a regular file is kept as it is or as a symbolic link.
func TestSpecialFiles(t *testing.T) {
	path := small(t)
	if err := unix.Mkfifo(filepath.Join(path, "a/pipe.png"), 0o600); err != nil {
		t.Skip(err)
	}
	for _, dir := range []string{t.TempDir(), otherFileSystem(t)} {
		out := filepath.Join(dir, "out")
		r, err := Write(context.Background(), open(t, path), out, Options{Shares: Shares{Raw: 0.2}})
		if err != nil || len(r.Unreadable) < 3 {
			t.Fatalf("%+v, %v", r, err)
		}
		info, err := os.Stat(filepath.Join(out, "a/pipe.png"))
		if err != nil || info.Mode().Type() != fs.ModeNamedPipe {
			t.Errorf("the pipe became %v: %v", info, err)
		}
		again(t, path, out, Options{Shares: Shares{Raw: 0.2}}, contents(t, out), "with a pipe")
	}
}

func refused(err error) bool {
	var bad *option.Error
	return errors.As(err, &bad)
}

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
