package resolve

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/batchfs/batchfs/internal/testkit"
)

func TestLinks(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	testkit.Must(t, err)
	testkit.Must(t, os.Symlink(dir, filepath.Join(dir, "link")))
	for path, want := range map[string]string{
		"/": "/", "/nowhere/x": "/nowhere/x", dir: dir,
		filepath.Join(dir, "link"): dir, filepath.Join(dir, "link/not/yet"): filepath.Join(dir, "not/yet"),
	} {
		if got := Links(path); got != want {
			t.Errorf("Links(%s) = %s, want %s", path, got, want)
		}
	}
}

func TestWithin(t *testing.T) {
	for _, c := range []struct {
		path, dir string
		want      bool
	}{{"/a/b", "/a", true}, {"/a", "/a", true}, {"/a", "/", true}, {"/ab", "/a", false}, {"/", "/a", false}, {"/a/../b", "/a", false}} {
		if got := Within(c.path, c.dir); got != c.want {
			t.Errorf("%s in %s: %t", c.path, c.dir, got)
		}
	}
}
