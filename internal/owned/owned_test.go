package owned

import (
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/batchfs/batchfs/internal/testkit"
)

func writes(text string) func(*os.File) error {
	return func(f *os.File) error { _, err := f.WriteString(text); return err }
}

// TestOpen: only regular files that nobody else can have written.
func TestOpen(t *testing.T) {
	dir := t.TempDir()
	for name, c := range map[string]struct {
		make func(path string) error
		good bool
	}{
		"good":            {func(p string) error { return os.WriteFile(p, nil, 0o644) }, true},
		"group may":       {func(p string) error { return os.WriteFile(p, nil, 0o600) }, false},
		"others may":      {func(p string) error { return os.WriteFile(p, nil, 0o600) }, false},
		"link":            {func(p string) error { return os.Symlink(filepath.Join(dir, "good"), p) }, false},
		"fifo":            {func(p string) error { return unix.Mkfifo(p, 0o600) }, false},
		"directory":       {func(p string) error { return os.Mkdir(p, 0o700) }, false},
		"somebody else's": {func(p string) error { return os.WriteFile(p, nil, 0o600) }, false},
	} {
		path := filepath.Join(dir, name)
		testkit.Must(t, c.make(path))
		switch name {
		case "group may":
			os.Chmod(path, 0o620)
		case "others may":
			os.Chmod(path, 0o602)
		case "somebody else's":
			if err := os.Chown(path, 4242, -1); err != nil {
				continue // only root can
			}
		}
		f, _, err := Open(path, os.O_RDONLY)
		if err == nil {
			f.Close()
		}
		if (err == nil) != c.good {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestReplaceAndCreate: one replaces a file, the other keeps it, and neither leaves anything else
// behind, even if writing fails.
func TestReplaceAndCreate(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "made", "for it")
	path := filepath.Join(dir, "file")
	for k, step := range []struct {
		put   func(string, func(*os.File) error) error
		write func(*os.File) error
		want  string
		fails bool
	}{
		{Create, writes("1"), "1", false},
		{Create, writes("2"), "1", true},
		{Replace, writes("3"), "3", false},
		{Replace, func(f *os.File) error { f.WriteString("4"); return fs.ErrInvalid }, "3", true},
		{Create, func(*os.File) error { return fs.ErrInvalid }, "3", true},
	} {
		if err := step.put(path, step.write); (err != nil) != step.fails {
			t.Errorf("step %d: %v", k, err)
		}
		if got, err := os.ReadFile(path); string(got) != step.want {
			t.Errorf("step %d: %q, %v", k, got, err)
		}
		if names, _ := os.ReadDir(dir); len(names) != 1 {
			t.Errorf("step %d: %v", k, names)
		}
	}
}
