package dataset

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// source is a dataset's location: a directory, or a manifest in one.
type source struct {
	dir      string // that paths are relative to; absolute, links resolved
	manifest string // file name in it; "" for a directory
	seen     atomic.Pointer[fs.FileInfo]
	mu       sync.Mutex // held while the directory is examined
}

// locate determines what path is.
func locate(path string) (*source, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	info, err := os.Stat(abs)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOTDIR) {
		return nil, fmt.Errorf("%s: %w", path, ErrNotExist)
	}
	if err != nil {
		return nil, err
	}
	src, dir := &source{}, abs
	if !info.IsDir() {
		if !info.Mode().IsRegular() || manifestReader(abs) == nil {
			return nil, fmt.Errorf("%s: %w", path, ErrKind)
		}
		// Resolve only the directory: paths are relative to the directory of the given name,
		// even if that name is a link.
		dir, src.manifest = filepath.Dir(abs), filepath.Base(abs)
	}
	if src.dir, err = filepath.EvalSymlinks(dir); err != nil {
		return nil, err
	}
	if info, err = os.Stat(src.dir); err != nil {
		return nil, err
	}
	src.seen.Store(&info)
	return src, nil
}

// name identifies the dataset among all on this machine.
func (s *source) name() string { return filepath.Join(s.dir, s.manifest) }

// examine finds out whether the storage is the reason why a file could not be reached. again means
// that seen is no longer the directory that is there, and the file may be in the present one. An
// error says why the file cannot be judged: ErrAway, or a lack of resources.
func (s *source) examine(seen *fs.FileInfo, table *store) (again bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.seen.Load() != seen {
		return true, nil
	}
	now, err := os.Stat(s.dir)
	if err == nil {
		// A directory without search permission hides its files; a network file system behaves
		// this way when a ticket has expired.
		err = unix.Faccessat(unix.AT_FDCWD, s.dir, unix.X_OK, unix.AT_EACCESS)
	}
	if err == nil {
		if os.SameFile(now, *seen) {
			return false, nil
		}
		if s.holds(table) {
			s.seen.Store(&now)
			return true, nil
		}
		err = errors.New("another directory is at its path, without the dataset's files")
	}
	if isLack(err) {
		return false, err
	}
	return false, fmt.Errorf("%w: %s: %s (mount it again, and reading continues)", ErrAway, s.dir, reason(err))
}

// holds says whether any of a few samples, spread evenly over all, exists below the directory.
// Their identities do not matter here; each read checks its own.
func (s *source) holds(t *store) bool {
	n := min(16, t.rows())
	for k := range n {
		if _, err := (kernel{}).look(s.dir, t.path(k*t.rows()/n)); err == nil || err == ErrNotFile {
			return true
		}
	}
	return false
}

// retry repeats a system call that signals interrupt.
func retry[T any](call func() (T, error)) (T, error) {
	for {
		value, err := call()
		if err != unix.EINTR {
			return value, err
		}
	}
}
