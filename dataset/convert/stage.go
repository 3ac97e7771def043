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

// scratchName is the directory in which files are created.
const scratchName = ".batchfs-convert.tmp"

// stage is the directory in which the result grows. A process that has it open holds a lock on
// the marker, so no other process works in it.
type stage struct {
	place
	dir    *os.File
	marker *os.File
	begun  *mark // what an earlier run began; nil if this is the first
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

// makeStaging makes the directory, or checks that an existing one is ours: it is empty or has a
// marker.
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

// lock makes sure that no other process works here or has just finished.
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

// read finds out what an earlier run began. A run writes its marker before anything else, so an
// incomplete marker has no other files next to it.
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

// begin writes the marker, unless an earlier run did, and removes unfinished files.
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
		// Grant no more permissions than the source has and the umask allows.
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

// finish turns the stage into the result.
func (s *stage) finish(step func()) error {
	if err := os.RemoveAll(s.at(scratchName)); err != nil {
		return err
	}
	step()
	// Sync the whole file system with one call instead of one per file. The rename must not
	// reach the disk before the tree does.
	if err := unix.Syncfs(int(s.dir.Fd())); err != nil {
		return &fs.PathError{Op: "sync", Path: s.staging, Err: err}
	}
	step()
	// os.Rename would refuse to replace an empty directory.
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
	// Some file systems do not support this, and do not need it.
	if err := d.Sync(); err != nil && !errors.Is(err, unix.EINVAL) {
		return err
	}
	return nil
}

// discard removes a stage in which nothing was made. It ignores errors, because the caller is
// already reporting one.
func (s *stage) discard() {
	if s.begun != nil {
		return
	}
	os.RemoveAll(s.at(scratchName))
	os.Remove(s.at(markerName))
	os.Remove(s.staging)
}

// close closes the stage and releases its lock.
func (s *stage) close() {
	for _, f := range []*os.File{s.marker, s.dir} {
		if f != nil {
			f.Close()
		}
	}
}
