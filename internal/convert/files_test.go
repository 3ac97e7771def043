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
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/google/go-cmp/cmp"

	"github.com/batchfs/batchfs/internal/dataset"
	"github.com/batchfs/batchfs/internal/option"
	"github.com/batchfs/batchfs/internal/testkit"
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
