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
	// ErrNotDirectory means that a mountpoint is not a directory.
	ErrNotDirectory = errors.New("not a directory")
	// ErrNotEmpty means that a mountpoint is a directory that is not empty.
	ErrNotEmpty = errors.New("not empty")
	// ErrMounted means that a live batchfs is mounted at a mountpoint.
	ErrMounted = errors.New("batchfs is mounted there already")
	// ErrDead means that the daemon of a mount died; Clear removes the mount.
	ErrDead = errors.New("the batchfs mounted there has died")
	// ErrNotMounted means that there is no batchfs mount at a path.
	ErrNotMounted = errors.New("no batchfs is mounted there")
	// ErrHangs means that the daemon of a mount does not answer.
	ErrHangs = errors.New("the batchfs mounted there does not answer")
)

// CheckMountpoint reports why nothing can be mounted at a path, which has to be an empty
// directory. The error names the path and wraps one of the errors above or fs.ErrNotExist.
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

// plainPathError strips the operation and the path from an error whose message is shown
// after the path.
func plainPathError(err error) error {
	var p *os.PathError
	if errors.As(err, &p) {
		return p.Err
	}
	return err
}

// answerTime is how long a daemon may take to answer statfs, which never waits, before it
// counts as hanging.
const answerTime = 10 * time.Second

// isDead reports whether the daemon of a batchfs mount is gone. It uses statfs, because the
// kernel answers stat from its cache. If the user may not access the mount, it always seems
// alive.
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
