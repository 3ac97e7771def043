package convert

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/batchfs/batchfs/dataset"
)

// temporary is the name under which a sample's file is made.
func temporary(i int) string { return path.Join(scratchName, strconv.Itoa(i)) }

// put moves a complete file into place. Directories get the permissions of those of the same
// name below source.
func (s *stage) put(temp, name, source string) error {
	if err := s.makeDir(path.Dir(name), source); err != nil {
		return err
	}
	s.step()
	err := s.root.Rename(temp, name)
	s.step()
	return err
}

func (s *stage) makeDir(dir, source string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for end := range len(dir) + 1 { // of dir, and of each directory above it
		part := dir[:end]
		if end < len(dir) && dir[end] != '/' || s.dirs[part] {
			continue
		}
		mode := fs.FileMode(0o755)
		if info, err := os.Stat(filepath.Join(source, part)); err == nil && info.IsDir() {
			mode = info.Mode().Perm() | 0o700
		}
		if err := s.root.Mkdir(part, mode); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
		s.dirs[part] = true
	}
	return nil
}

func identityOf(info fs.FileInfo) dataset.Identity {
	return dataset.Identity{Size: info.Size(), ModTime: info.ModTime().UnixNano()}
}

func (s *stage) remove(name string) error {
	if err := s.root.Remove(name); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// create makes a file under a temporary name. After an error, there is none. fill returns the
// file's modification time.
func (s *stage) create(temp string, mode fs.FileMode, fill func(out *os.File) (time.Time, error)) error {
	out, err := s.root.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return err
	}
	s.step()
	modTime, err := fill(out)
	if err = errors.Join(err, out.Close()); err == nil {
		s.step()
		// Set the time by name and after closing: some network file systems write the data, and
		// so change the time, when a file is closed.
		err = s.root.Chtimes(temp, time.Time{}, modTime)
	}
	if err != nil {
		_ = s.root.Remove(temp)
	}
	return err
}

// kept is how a file was kept.
type kept uint8

const (
	linked kept = iota
	cloned
	copied
)

// keep makes a link, a clone or a copy of a file under a temporary name, whichever works first.
func (s *stage) keep(temp, source string) (kept, error) {
	// Unlike os.Link, this follows symbolic links of the source.
	err := unix.EINTR
	for err == unix.EINTR {
		err, _ = unix.Linkat(unix.AT_FDCWD, source, unix.AT_FDCWD, filepath.Join(s.path, temp), unix.AT_SYMLINK_FOLLOW).(unix.Errno)
	}
	switch err {
	case 0:
		s.step()
		return linked, nil
	case unix.ENOSPC, unix.EDQUOT, unix.EROFS, unix.EIO:
		return 0, &os.LinkError{Op: "link", Old: source, New: temp, Err: err}
	}
	// EXDEV, EPERM, EMLINK and others: a copy works instead, or fails with its own error.
	return s.copy(temp, source)
}

func (s *stage) copy(temp, source string) (how kept, err error) {
	in, err := os.OpenFile(source, os.O_RDONLY|unix.O_NONBLOCK|unix.O_NOCTTY, 0)
	if err != nil {
		return 0, err
	}
	defer in.Close()
	info, err := in.Stat()
	if err != nil {
		return 0, err
	}
	if !info.Mode().IsRegular() {
		return 0, dataset.ErrNotFile
	}
	err = s.create(temp, info.Mode().Perm(), func(out *os.File) (time.Time, error) {
		how = cloned
		if unix.IoctlFileClone(int(out.Fd()), int(in.Fd())) != nil {
			how = copied
			if _, err := io.Copy(out, io.LimitReader(in, info.Size())); err != nil {
				return time.Time{}, err
			}
		}
		// If the file was written meanwhile, it has another time now, which will be noticed.
		info, err := in.Stat()
		if err != nil {
			return time.Time{}, err
		}
		return info.ModTime(), nil
	})
	return how, err
}
