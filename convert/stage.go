package convert

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// scratchName is the directory in which files come into being.
const scratchName = ".batchfs-convert.tmp"

// stage is the directory in which the result grows. Whoever has it open is the only
// one: its marker is locked.
type stage struct {
	place
	dir    *os.File
	marker *os.File
	begun  *mark // what an earlier run began; nil where this is the first
}

// openStage makes or finds the stage and locks it.
func openStage(p place) (*stage, error) {
	if err := os.MkdirAll(filepath.Dir(p.staging), 0o755); err != nil {
		return nil, err
	}
	if err := makeStaging(p.staging); err != nil {
		return nil, err
	}
	s := &stage{place: p}
	if err := s.open(); err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

func (s *stage) open() (err error) {
	if s.dir, err = os.OpenFile(s.staging, os.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0); err != nil {
		return err
	}
	if s.marker, err = os.OpenFile(s.at(markerName), os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW, 0o644); err != nil {
		return err
	}
	if err := s.lock(); err != nil {
		return err
	}
	return s.read()
}

// makeStaging makes the directory, or makes sure that the one that is there is ours: it
// is empty, or has a marker.
func makeStaging(path string) error {
	err := os.Mkdir(path, 0o755)
	if !errors.Is(err, fs.ErrExist) {
		return err
	}
	info, err := os.Lstat(path)
	if err != nil {
		return err
	}
	if !info.IsDir() {
		return fmt.Errorf("%s %w", path, ErrForeign)
	}
	first, err := firstEntry(path)
	if first == "" || err != nil {
		return err
	}
	if _, err := os.Lstat(filepath.Join(path, markerName)); err != nil {
		return fmt.Errorf("%s %w: it holds %s", path, ErrForeign, first)
	}
	return nil
}

func (s *stage) at(name string) string { return filepath.Join(s.staging, name) }

// lock makes sure that no one else works here, nor has just finished.
func (s *stage) lock() error {
	err := unix.Flock(int(s.marker.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		return fmt.Errorf("%s: %w", s.staging, ErrBusy)
	}
	if err != nil {
		return &fs.PathError{Op: "lock", Path: s.marker.Name(), Err: err}
	}
	held, err := s.marker.Stat()
	if err != nil {
		return err
	}
	if there, err := os.Stat(s.at(markerName)); err != nil || !os.SameFile(held, there) {
		return fmt.Errorf("%s: %w", s.staging, ErrBusy)
	}
	return nil
}

// read finds out what an earlier run began. It wrote its marker before anything else,
// so one that is not whole stands alone.
func (s *stage) read() error {
	text, err := io.ReadAll(s.marker)
	if err != nil {
		return err
	}
	if s.begun, err = parseMark(text); err == nil {
		return nil
	}
	if first, err := firstEntry(s.staging); err != nil || first != markerName {
		if err == nil {
			err = fmt.Errorf("%s %w: its %s is damaged", s.staging, ErrForeign, markerName)
		}
		return err
	}
	return nil
}

// begin writes the marker, if an earlier run did not, and clears what it left half
// done.
func (s *stage) begin(m *mark, mode os.FileMode) error {
	if s.begun == nil {
		if err := s.marker.Truncate(0); err != nil {
			return err
		}
		if _, err := s.marker.WriteAt(m.text(), 0); err != nil {
			return err
		}
		if err := s.marker.Sync(); err != nil {
			return err
		}
		// No more permissions than the source has, nor than the user's mask leaves.
		info, err := s.dir.Stat()
		if err != nil {
			return err
		}
		if err := s.dir.Chmod(info.Mode().Perm() & (mode | 0o700)); err != nil {
			return err
		}
	}
	if err := os.RemoveAll(s.at(scratchName)); err != nil {
		return err
	}
	return os.Mkdir(s.at(scratchName), 0o700)
}

// finish makes the stage the result.
func (s *stage) finish(step func()) error {
	if err := os.RemoveAll(s.at(scratchName)); err != nil {
		return err
	}
	step()
	// One call for the whole file system instead of one a file: a rename must not reach
	// the disk before what is renamed.
	if err := unix.Syncfs(int(s.dir.Fd())); err != nil {
		return &fs.PathError{Op: "sync", Path: s.staging, Err: err}
	}
	step()
	// Not os.Rename, which refuses to put a directory in the place of an empty one.
	switch err := unix.Rename(s.staging, s.out); err {
	case nil:
	case unix.ENOTEMPTY, unix.EEXIST:
		return fmt.Errorf("%s: %w", s.out, ErrNotEmpty)
	default:
		return &os.LinkError{Op: "rename", Old: s.staging, New: s.out, Err: err}
	}
	step()
	return syncDir(filepath.Dir(s.out))
}

func syncDir(path string) error {
	d, err := os.Open(path)
	if err != nil {
		return err
	}
	defer d.Close()
	// Some file systems cannot, and need not.
	if err := d.Sync(); err != nil && !errors.Is(err, unix.EINVAL) {
		return err
	}
	return nil
}

// discard removes a stage in which nothing was made. There is nothing to do about its
// errors: one has happened already.
func (s *stage) discard() {
	if s.begun != nil {
		return
	}
	os.RemoveAll(s.at(scratchName))
	os.Remove(s.at(markerName))
	os.Remove(s.staging)
}

// close lets go of the stage, and of its lock.
func (s *stage) close() {
	for _, f := range []*os.File{s.marker, s.dir} {
		if f != nil {
			f.Close()
		}
	}
}
