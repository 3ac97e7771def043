package convert

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// place is the result's final path and the path where it grows, absolute and without links.
type place struct {
	out     string
	staging string
}

// stagingSuffix names the unfinished tree, next to the finished one: only there is a rename
// sure to stay on one file system.
const stagingSuffix = ".partial"

// findPlace checks that a dataset may appear at out. finished is the marker of a result that is
// already there. A manifest's directory may well be a home directory: its dataset is only what
// it lists, so the result may lie in that directory.
func findPlace(out, root string, manifest bool) (p place, finished *mark, err error) {
	abs, err := filepath.Abs(out)
	if err != nil {
		return p, nil, err
	}
	p.out = resolve(abs)
	p.staging = p.out + stagingSuffix
	if !manifest && within(p.out, root) || within(root, p.staging) {
		return p, nil, fmt.Errorf("%s %w %s", out, ErrInside, root)
	}
	info, err := os.Lstat(p.out)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return p, nil, nil
	case err != nil:
		return p, nil, err
	case !info.IsDir():
		return p, nil, &fs.PathError{Op: "write", Path: out, Err: unix.ENOTDIR}
	}
	if finished, err = readFinished(p.out); finished != nil || err != nil {
		return p, finished, err
	}
	if sameMount, err := onOneMount(p.out, filepath.Dir(p.out)); err != nil || !sameMount {
		if err == nil {
			err = fmt.Errorf("%s %w", out, ErrMountpoint)
		}
		return p, nil, err
	}
	return p, nil, nil
}

// readFinished returns the marker of a directory that holds a result, nil if the directory is
// empty.
func readFinished(dir string) (*mark, error) {
	first, err := firstEntry(dir)
	if first == "" || err != nil {
		return nil, err
	}
	if text, err := os.ReadFile(filepath.Join(dir, markerName)); err == nil {
		if m, err := parseMark(text); err == nil {
			return m, nil
		}
	}
	return nil, fmt.Errorf("%s: %w: it holds %s", dir, ErrNotEmpty, first)
}

// firstEntry is some name in a directory, preferably not the marker's; "" if it is empty.
func firstEntry(dir string) (string, error) {
	d, err := os.Open(dir)
	if err != nil {
		return "", err
	}
	defer d.Close()
	names, err := d.Readdirnames(2)
	if err != nil && err != io.EOF {
		return "", err
	}
	switch {
	case len(names) == 0:
		return "", nil
	case names[0] == markerName && len(names) > 1:
		return names[1], nil
	}
	return names[0], nil
}

// resolve follows links in a path whose last components may not exist.
func resolve(path string) string {
	if real, err := filepath.EvalSymlinks(path); err == nil {
		return real
	}
	parent := filepath.Dir(path)
	if parent == path {
		return path
	}
	return filepath.Join(resolve(parent), filepath.Base(path))
}

func within(path, dir string) bool {
	rel, err := filepath.Rel(dir, path)
	return err == nil && rel != ".." && !strings.HasPrefix(rel, "../")
}

// onOneMount says whether a directory and its parent belong to the same mount.
func onOneMount(dir, parent string) (bool, error) {
	var a, b unix.Statx_t
	for path, st := range map[string]*unix.Statx_t{dir: &a, parent: &b} {
		if err := unix.Statx(unix.AT_FDCWD, path, 0, unix.STATX_BASIC_STATS|unix.STATX_MNT_ID, st); err != nil {
			return false, &fs.PathError{Op: "stat", Path: path, Err: err}
		}
	}
	return a.Dev_major == b.Dev_major && a.Dev_minor == b.Dev_minor && a.Mnt_id == b.Mnt_id, nil
}
