package dataset

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// A root is an open directory from which samples are looked up. It is closed when
// nobody uses it any more, whatever has taken its place by then.
type root struct {
	fd    int
	spot  spot
	users atomic.Int64 // being the current root counts as one
}

// spot tells a directory from another one that has its path later.
type spot struct{ dev, inode, mount uint64 }

// openRoot opens a directory; the caller releases it.
func openRoot(path string) (*root, error) {
	for {
		fd, err := unix.Open(path, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		if err == unix.EINTR {
			continue
		}
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
}

// spotOf is that of a path, or of the directory itself where path is "".
func spotOf(dir int, path string) (spot, error) {
	flags := 0
	if path == "" {
		flags = unix.AT_EMPTY_PATH
	}
	for {
		var st unix.Statx_t
		err := unix.Statx(dir, path, flags, unix.STATX_BASIC_STATS|unix.STATX_MNT_ID, &st)
		if err == unix.EINTR {
			continue
		}
		p := spot{dev: unix.Mkdev(st.Dev_major, st.Dev_minor), inode: st.Ino}
		if st.Mask&unix.STATX_MNT_ID != 0 { // Linux 5.8
			p.mount = st.Mnt_id
		}
		return p, err
	}
}

// acquire keeps r open, unless it is closed already.
func (r *root) acquire() bool {
	for {
		n := r.users.Load()
		if n == 0 {
			return false
		}
		if r.users.CompareAndSwap(n, n+1) {
			return true
		}
	}
}

func (r *root) release() {
	if r.users.Add(-1) == 0 && r.fd >= 0 {
		unix.Close(r.fd)
	}
}

// roots is the directory that a dataset's paths are relative to. A mount below it may
// come and go while the dataset is open; then another directory takes the place of
// the one that was opened.
type roots struct {
	path    string
	current atomic.Pointer[root]
	mu      sync.Mutex // held while the current one is examined
}

// use returns the current root; the caller releases it. It allocates nothing.
func (s *roots) use() *root {
	for {
		if r := s.current.Load(); r.acquire() {
			return r
		}
	}
}

// close lets go of the current root. What is still being read goes on from it; what
// is looked up afterwards fails with EBADF.
func (s *roots) close() {
	closed := &root{fd: -1}
	closed.users.Store(1)
	s.current.Swap(closed).release()
}

// examine finds out, when a file could not be reached from r, whether the storage is
// the reason. again says that another directory has taken r's place, in which the
// file may be. An error says why neither the file nor another directory can be judged:
// ErrAway, or what the machine lacks.
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
		// A directory that may not be searched hides what is in it, as a network file
		// system does when a ticket has run out.
		if err := unix.Faccessat(r.fd, ".", unix.X_OK, unix.AT_EACCESS); err != nil {
			return false, s.away(err)
		}
		return false, nil
	}
	next, err := openRoot(s.path)
	if err != nil {
		return false, s.away(err)
	}
	if !holds(next.fd, table) {
		next.release()
		return false, s.away(errOtherDirectory)
	}
	s.current.Swap(next).release()
	return true, nil
}

var errOtherDirectory = errors.New("another directory is at its path, without the dataset's files")

// away is the error for storage that is not there, and for a machine that cannot look.
func (s *roots) away(cause error) error {
	if isLack(cause) {
		return cause
	}
	return fmt.Errorf("%w: %s: %v (mount it again; reading goes on by itself then)", ErrAway, s.path, cause)
}

// evidence is how many samples are looked for before a directory is believed not to
// hold a dataset.
const evidence = 16

// holds says whether any of some samples, taken evenly from all, is below a directory.
// Which files they are is not judged here: each is when it is read.
func holds(dir int, t *store) bool {
	n := min(evidence, t.rows())
	for k := range n {
		if _, err := statFrom(dir, t.path(k*t.rows()/n)); err == nil {
			return true
		}
	}
	return false
}
