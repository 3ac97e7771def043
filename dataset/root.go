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
	if src.root, err = filepath.EvalSymlinks(dir); err != nil {
		return nil, err
	}
	if src.dir, err = openRoot(src.root); err != nil {
		return nil, &fs.PathError{Op: "open", Path: src.root, Err: err}
	}
	return src, nil
}

// name identifies the dataset among all on this machine.
func (s *source) name() string { return filepath.Join(s.root, s.manifest) }

// A root is an open directory that samples are looked up from. Its last user closes it, even if
// another root has replaced it by then.
type root struct {
	fd    int
	spot  spot
	users atomic.Int64 // being the current root counts as one
}

// spot distinguishes a directory from another one that has its path later.
type spot struct{ dev, inode, mount uint64 }

// openRoot opens a directory; the caller releases it.
func openRoot(path string) (*root, error) {
	fd, err := retry(func() (int, error) {
		return unix.Open(path, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	})
	if err != nil {
		return nil, err
	}
	r := &root{fd: fd}
	r.users.Store(1)
	if r.spot, err = spotOf(fd, ""); err != nil {
		r.release()
		return nil, err
	}
	return r, nil
}

// spotOf identifies a path relative to dir, or dir itself if path is "".
func spotOf(dir int, path string) (spot, error) {
	flags := 0
	if path == "" {
		flags = unix.AT_EMPTY_PATH
	}
	return retry(func() (spot, error) {
		var st unix.Statx_t
		err := unix.Statx(dir, path, flags, unix.STATX_BASIC_STATS|unix.STATX_MNT_ID, &st)
		p := spot{dev: unix.Mkdev(st.Dev_major, st.Dev_minor), inode: st.Ino}
		if st.Mask&unix.STATX_MNT_ID != 0 { // Linux 5.8
			p.mount = st.Mnt_id
		}
		return p, err
	})
}

// acquire keeps r open; it returns false if r is already closed.
func (r *root) acquire() bool {
	for n := r.users.Load(); n > 0; n = r.users.Load() {
		if r.users.CompareAndSwap(n, n+1) {
			return true
		}
	}
	return false
}

func (r *root) release() {
	if r.users.Add(-1) == 0 && r.fd >= 0 {
		unix.Close(r.fd)
	}
}

// roots is the directory that a dataset's paths are relative to. It may be remounted while the
// dataset is open; the new directory then replaces the one that was opened.
type roots struct {
	path    string
	current atomic.Pointer[root]
	mu      sync.Mutex // held while the current root is examined
}

// use returns the current root; the caller releases it. It does not allocate.
func (s *roots) use() *root {
	for {
		if r := s.current.Load(); r.acquire() {
			return r
		}
	}
}

// close releases the current root. Reads in progress continue; later lookups fail with EBADF.
func (s *roots) close() {
	closed := &root{fd: -1}
	closed.users.Store(1)
	s.current.Swap(closed).release()
}

// examine finds out whether the storage is the reason why a file could not be reached from r.
// again means that another directory has replaced r, and the file may be in it. An error says
// why neither the file nor another directory can be judged: ErrAway, or a lack of resources.
func (s *roots) examine(r *root, table *store) (again bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.current.Load() != r {
		return true, nil
	}
	if !r.acquire() || r.fd < 0 {
		return false, unix.EBADF
	}
	defer r.release()
	now, err := spotOf(unix.AT_FDCWD, s.path)
	if err != nil {
		return false, s.away(err)
	}
	if _, stale := spotOf(r.fd, ""); now == r.spot && stale == nil {
		// A directory without search permission hides its files; a network file system behaves
		// this way when a ticket has expired.
		return false, s.away(unix.Faccessat(r.fd, ".", unix.X_OK, unix.AT_EACCESS))
	}
	next, err := openRoot(s.path)
	if err != nil {
		return false, s.away(err)
	}
	if !holds(next.fd, table) {
		next.release()
		return false, s.away(errors.New("another directory is at its path, without the dataset's files"))
	}
	s.current.Swap(next).release()
	return true, nil
}

// away is the error for storage that is not there, or for a machine that cannot check.
func (s *roots) away(cause error) error {
	if cause == nil || isLack(cause) {
		return cause
	}
	return fmt.Errorf("%w: %s: %v (mount it again; reading goes on by itself then)", ErrAway, s.path, cause)
}

// holds says whether any of a few samples, spread evenly over all, exists below a directory.
// Their identities do not matter here; each read checks its own.
func holds(dir int, t *store) bool {
	n := min(16, t.rows())
	for k := range n {
		if _, err := statFrom(dir, t.path(k*t.rows()/n)); err == nil {
			return true
		}
	}
	return false
}

// statFrom is stat of a path relative to an open directory; it follows links.
func statFrom(dir int, path string) (unix.Stat_t, error) {
	return retry(func() (st unix.Stat_t, err error) {
		err = unix.Fstatat(dir, path, &st, 0)
		return st, err
	})
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

func isDir(st *unix.Stat_t) bool { return st.Mode&unix.S_IFMT == unix.S_IFDIR }
