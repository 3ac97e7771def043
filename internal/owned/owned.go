// Package owned reads and writes files that a later run trusts, such as a dataset's index. A file
// is trusted only if nobody but the user and root can have written it.
package owned

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Check rejects a file or directory that other users own or may write to. Root may own it, because
// root can write anything anyway.
func Check(path string, info os.FileInfo) error {
	const could = "others could have written it: "
	if owner, me := info.Sys().(*syscall.Stat_t).Uid, uint32(os.Geteuid()); owner != me && owner != 0 {
		return fmt.Errorf("%s: "+could+"it belongs to user %d, and you are %d (remove it, or set XDG_CACHE_HOME)", path, owner, me)
	}
	if mode := info.Mode().Perm(); mode&0o022 != 0 {
		return fmt.Errorf("%s: "+could+"its mode is %04o (chmod go-w %s)", path, mode, path)
	}
	return nil
}

// Open opens a regular file that passes Check, and returns its size. flags are those of
// os.OpenFile; a file that is made is the user's own. The caller closes it.
func Open(path string, flags int) (*os.File, int64, error) {
	f, err := os.OpenFile(path, flags|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0o600)
	if err != nil {
		return nil, 0, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%s: not a regular file", path)
	}
	if err == nil {
		err = Check(path, info)
	}
	if err != nil {
		f.Close()
		return nil, 0, err
	}
	return f, info.Size(), nil
}

// Replace writes a file and moves it to path, so that path never leads to an incomplete one. It
// makes path's directory if needed. It does not sync: the file's content must reveal whether a
// crash lost a part of it.
func Replace(path string, write func(f *os.File) error) error { return put(path, write, os.Rename) }

// Create is Replace for a new file: it leaves an existing one alone, and returns [fs.ErrExist].
func Create(path string, write func(f *os.File) error) error { return put(path, write, moveToNew) }

// moveToNew renames a file, unless something has the new name.
func moveToNew(from, to string) error {
	err := unix.Renameat2(unix.AT_FDCWD, from, unix.AT_FDCWD, to, unix.RENAME_NOREPLACE)
	if err == unix.EINVAL || err == unix.ENOSYS { // as on NFS
		if err := os.Link(from, to); err == nil || errors.Is(err, fs.ErrExist) {
			return errors.Join(err, os.Remove(from))
		}
		if _, err := os.Lstat(to); err == nil {
			return fs.ErrExist
		}
		return os.Rename(from, to) // some file systems have no links
	}
	if err != nil {
		return &os.LinkError{Op: "rename", Old: from, New: to, Err: err}
	}
	return nil
}

// Try is the error that Create and Replace would have now, before there is anything to write.
func Try(path string) error {
	tried := errors.New("tried")
	err := put(path, func(*os.File) error { return tried }, nil)
	if errors.Is(err, tried) {
		return nil
	}
	return err
}

func put(path string, write func(f *os.File) error, move func(from, to string) error) (err error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+tempMark+"*")
	if err != nil {
		return err
	}
	defer func() {
		f.Close()
		if err != nil {
			os.Remove(f.Name())
		}
	}()
	if err := write(f); err != nil {
		return err
	}
	if err := f.Close(); err != nil { // network file systems find out only now that there is no room
		return err
	}
	if err := move(f.Name(), path); err != nil {
		return err
	}
	removeLeftovers(path)
	return nil
}

const (
	tempMark = ".tmp-"
	tempLife = time.Hour // longer than writing a file ever takes
)

// removeLeftovers removes temporary files left by writers of this file that were killed.
func removeLeftovers(path string) {
	dir, mark := filepath.Dir(path), filepath.Base(path)+tempMark
	entries, _ := os.ReadDir(dir)
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), mark) {
			continue
		}
		if info, err := e.Info(); err == nil && time.Since(info.ModTime()) > tempLife {
			os.Remove(filepath.Join(dir, e.Name()))
		}
	}
}
