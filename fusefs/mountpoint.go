package fusefs

import (
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

var (
	// ErrNotDirectory means that a mountpoint is no directory.
	ErrNotDirectory = errors.New("not a directory")
	// ErrNotEmpty means that a mountpoint is a directory with something in it.
	ErrNotEmpty = errors.New("not empty")
	// ErrMounted means that a living batchfs is mounted at a mountpoint.
	ErrMounted = errors.New("batchfs is mounted there already")
	// ErrDead means that the daemon of a mount died; Clear takes it away.
	ErrDead = errors.New("the batchfs mounted there has died")
	// ErrNotMounted means that what is at a path is no batchfs mount.
	ErrNotMounted = errors.New("no batchfs is mounted there")
	// ErrHangs means that the daemon of a mount does not answer.
	ErrHangs = errors.New("the batchfs mounted there does not answer")
)

// CheckMountpoint reports why nothing can be mounted at a path: it has to be an
// empty directory. The error wraps one of the errors above or fs.ErrNotExist, and
// names the path.
func CheckMountpoint(path string) error {
	if err := checkMountpoint(path); err != nil {
		return fmt.Errorf("mountpoint %s: %w", path, err)
	}
	return nil
}

func checkMountpoint(path string) error {
	real, err := realPath(path)
	if err != nil {
		return plainPathError(err)
	}
	if m, ok, err := mountAt(real); err == nil && ok && m.fsType == fsType {
		switch dead, err := isDead(real); {
		case err != nil:
			return err
		case dead:
			return ErrDead
		}
		return ErrMounted
	}
	info, err := os.Stat(real)
	switch {
	case err != nil:
		return plainPathError(err)
	case !info.IsDir():
		return ErrNotDirectory
	}
	return checkEmpty(real)
}

func checkEmpty(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return plainPathError(err)
	}
	defer d.Close()
	switch _, err := d.Readdirnames(1); {
	case err == nil:
		return ErrNotEmpty
	case errors.Is(err, io.EOF):
		return nil
	default:
		return plainPathError(err)
	}
}

// plainPathError drops the operation and the path of an error that will be shown
// with the path before it.
func plainPathError(err error) error {
	var p *os.PathError
	if errors.As(err, &p) {
		return p.Err
	}
	return err
}

// answerTime is how long a daemon may take to answer statfs, which waits for
// nothing, before it is said to hang.
const answerTime = 10 * time.Second

// isDead reports whether the daemon behind a batchfs mount is gone. It asks by
// statfs: the kernel answers stat itself for as long as it believes what it knows.
// To a user who may not look into the mount, every mount seems alive.
func isDead(path string) (bool, error) {
	answer := make(chan error, 1)
	go func() { // ends with the answer, or with the process
		var s unix.Statfs_t
		answer <- unix.Statfs(path, &s)
	}()
	select {
	case err := <-answer:
		return errors.Is(err, unix.ENOTCONN) || errors.Is(err, unix.ECONNABORTED), nil
	case <-time.After(answerTime):
		return false, ErrHangs
	}
}
