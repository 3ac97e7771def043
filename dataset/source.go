package dataset

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// source is a dataset's location: a directory, or a manifest in one.
type source struct {
	root     string // the directory that paths are relative to; absolute, links resolved
	manifest string // file name in root; "" for a directory
	dir      *root
}

// locate determines what path is and opens its directory.
func locate(path string) (*source, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	info, err := os.Stat(abs)
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOTDIR) {
			return nil, fmt.Errorf("%s: %w", path, ErrNotExist)
		}
		return nil, err
	}
	src := &source{}
	dir := abs
	if !info.IsDir() {
		if !info.Mode().IsRegular() || manifestReader(abs) == nil {
			return nil, fmt.Errorf("%s: %w", path, ErrKind)
		}
		// Resolve only the directory: paths are relative to the directory of the given name,
		// even if that name is a link.
		dir, src.manifest = filepath.Dir(abs), filepath.Base(abs)
	}
	if src.root, err = filepath.EvalSymlinks(dir); err != nil {
		return nil, err
	}
	if src.dir, err = openRoot(src.root); err != nil {
		return nil, &fs.PathError{Op: "open", Path: src.root, Err: err}
	}
	return src, nil
}

func (s *source) fd() int { return s.dir.fd }

// name identifies the dataset among all on this machine.
func (s *source) name() string {
	if s.manifest == "" {
		return s.root
	}
	return filepath.Join(s.root, s.manifest)
}

// contains says whether a path (absolute, links resolved) lies in the dataset's
// directory tree.
func (s *source) contains(path string) bool {
	rel, err := filepath.Rel(s.root, path)
	return err == nil && rel != ".." && !strings.HasPrefix(rel, "../")
}

// statFrom is stat of a path relative to an open directory; it follows links.
func statFrom(dir int, path string) (unix.Stat_t, error) {
	var st unix.Stat_t
	for {
		err := unix.Fstatat(dir, path, &st, 0)
		if err != unix.EINTR {
			return st, err
		}
	}
}

func mtimeOf(st *unix.Stat_t) int64 { return st.Mtim.Nano() }

func isDir(st *unix.Stat_t) bool { return st.Mode&unix.S_IFMT == unix.S_IFDIR }

func isRegular(st *unix.Stat_t) bool { return st.Mode&unix.S_IFMT == unix.S_IFREG }
