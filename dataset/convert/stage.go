package convert

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/batchfs/batchfs/internal/resolve"
)

const (
	// stagingSuffix names the unfinished tree, next to the finished one: only there is a rename
	// sure to stay on one file system.
	stagingSuffix = ".partial"
	// scratchName is the directory in it in which files are made.
	scratchName = ".batchfs-convert.tmp"
)

// stage is the directory in which the result grows. A process that has it open holds a lock on
// the marker, so no other process works in it.
type stage struct {
	out    string // the result's final path, absolute and without links
	path   string // of the stage
	begun  *mark  // what an earlier run began; nil if this is the first
	root   *os.Root
	marker *os.File
	step   func()

	mu   sync.Mutex
	dirs map[string]bool // that exist
}

// findPlace checks that a dataset may appear at out. finished is the marker of a result that is
// already there. A manifest's directory may well be a home directory: its dataset is only what
// it lists, so the result may lie in that directory.
func findPlace(out, root string, manifest bool) (s *stage, finished *mark, err error) {
	abs, err := filepath.Abs(out)
	if err != nil {
		return nil, nil, err
	}
	s = &stage{out: resolve.Links(abs), dirs: map[string]bool{".": true}}
	s.path = s.out + stagingSuffix
	if !manifest && resolve.Within(s.out, root) || resolve.Within(root, s.path) {
		return nil, nil, fmt.Errorf("%s %w %s", out, ErrInside, root)
	}
	first, err := firstEntry(s.out)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return s, nil, nil
	case err != nil:
		return nil, nil, err
	case first == "":
		return s, nil, notMounted(s.out)
	}
	text, err := os.ReadFile(filepath.Join(s.out, markerName))
	if err == nil {
		finished, err = parseMark(text)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w: it holds %s", s.out, ErrNotEmpty, first)
	}
	return s, finished, nil
}

// firstEntry is some name in a directory, preferably not the marker's; "" if it is empty.
func firstEntry(dir string) (string, error) {
	d, err := os.Open(dir)
	if err != nil {
		return "", err
	}
	defer d.Close()
	names, err := d.Readdirnames(2)
	switch {
	case err == io.EOF:
		return "", nil
	case err != nil:
		return "", err
	case names[0] == markerName && len(names) > 1:
		return names[1], nil
	}
	return names[0], nil
}

// notMounted returns an error if a file system is mounted at dir.
func notMounted(dir string) error {
	var st unix.Statx_t
	if err := unix.Statx(unix.AT_FDCWD, dir, 0, 0, &st); err != nil {
		return &fs.PathError{Op: "stat", Path: dir, Err: err}
	}
	if st.Attributes&unix.STATX_ATTR_MOUNT_ROOT != 0 {
		return fmt.Errorf("%s %w", dir, ErrMountpoint)
	}
	return nil
}

// open makes or finds the stage, locks it, and finds out what an earlier run began.
func (s *stage) open() error {
	err := os.MkdirAll(s.path, 0o755)
	if errors.Is(err, unix.ENOTDIR) {
		return fmt.Errorf("%s %w", s.path, ErrForeign)
	}
	if err != nil {
		return err
	}
	if s.root, err = os.OpenRoot(s.path); err != nil {
		return err
	}
	if s.marker, err = s.root.OpenFile(markerName, os.O_RDWR|os.O_CREATE, 0o644); err != nil {
		return err
	}
	if err := s.lock(); err != nil {
		return err
	}
	text, err := io.ReadAll(s.marker)
	if err != nil {
		return err
	}
	if s.begun, err = parseMark(text); err == nil {
		return nil
	}
	// A run writes its marker before anything else.
	first, err := firstEntry(s.path)
	if err == nil && first != markerName {
		err = fmt.Errorf("%s %w: it holds %s, and no %s or a damaged one", s.path, ErrForeign, first, markerName)
		if len(text) == 0 {
			err = errors.Join(err, s.root.Remove(markerName))
		}
	}
	return err
}

// lock makes sure that no other process works here or has just finished.
func (s *stage) lock() error {
	err := unix.Flock(int(s.marker.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if err != nil && err != unix.EWOULDBLOCK {
		return &fs.PathError{Op: "lock", Path: s.marker.Name(), Err: err}
	}
	held, errHeld := s.marker.Stat()
	there, errThere := os.Stat(filepath.Join(s.path, markerName))
	if err != nil || errHeld != nil || errThere != nil || !os.SameFile(held, there) {
		return fmt.Errorf("%s: %w", s.path, ErrBusy)
	}
	return nil
}

// begin writes the marker, unless an earlier run did, and removes unfinished files. The result
// gets no more permissions than the source's, which are mode.
func (s *stage) begin(m *mark, mode fs.FileMode) error {
	if s.begun == nil {
		info, err := s.root.Stat(".")
		if err != nil {
			return err
		}
		if _, err := s.marker.WriteAt(m.text(), 0); err != nil {
			return err
		}
		if err := errors.Join(s.marker.Truncate(int64(len(m.text()))), s.marker.Sync()); err != nil {
			return err
		}
		if err := s.root.Chmod(".", info.Mode().Perm()&(mode|0o700)); err != nil {
			return err
		}
	}
	return errors.Join(s.root.RemoveAll(scratchName), s.root.Mkdir(scratchName, 0o700))
}

// finish turns the stage into the result.
func (s *stage) finish() error {
	if err := s.root.RemoveAll(scratchName); err != nil {
		return err
	}
	s.step()
	// Sync the whole file system with one call instead of one per file. The rename must not
	// reach the disk before the tree does.
	if err := unix.Syncfs(int(s.marker.Fd())); err != nil {
		return &fs.PathError{Op: "sync", Path: s.path, Err: err}
	}
	s.step()
	err := unix.Rename(s.path, s.out) // os.Rename would refuse to replace an empty directory
	if errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("%s: %w", s.out, ErrNotEmpty)
	}
	s.step()
	return os.NewSyscallError("rename to "+s.out, err)
}

// discard removes a stage in which nothing was made. It ignores errors, because the caller is
// already reporting one.
func (s *stage) discard() {
	if s.begun == nil {
		_ = s.root.RemoveAll(scratchName)
		_ = s.root.Remove(markerName)
		_ = os.Remove(s.path)
	}
}

// close releases the lock.
func (s *stage) close() {
	s.marker.Close() // a nil file, if open failed, is no harm
	if s.root != nil {
		s.root.Close()
	}
}
