package convert

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/batchfs/batchfs/sample"
)

// Errors of Write, to be told apart with errors.Is.
var (
	// ErrNotEmpty: what shall be written exists and holds something, and is not what
	// this run would make.
	ErrNotEmpty = errors.New("directory is not empty")
	// ErrInside: the result would lie inside the dataset, and become part of it.
	ErrInside = errors.New("lies inside the dataset")
	// ErrMountpoint: a file system is mounted where the result shall be, which cannot
	// appear there by a rename.
	ErrMountpoint = errors.New("is a mountpoint")
	// ErrBusy: another process is writing the same result.
	ErrBusy = errors.New("another batchfs convert is writing it")
	// ErrForeign: the unfinished tree's name is taken by something else.
	ErrForeign = errors.New("is not the unfinished work of batchfs convert")
	// ErrSettings: an unfinished run had other settings.
	ErrSettings = errors.New("was begun with other settings")
	// ErrSource: the dataset changed since an unfinished run began, or while this one
	// runs.
	ErrSource = errors.New("the dataset changed")
	// ErrSpace: the disk lacks the space; what was made so far stays for a run that
	// continues.
	ErrSpace = errors.New("not enough space")
)

// spaceError finds a full disk, a used-up quota or the lack of inodes in an error.
func spaceError(err error) error {
	if err == nil || errors.Is(err, ErrSpace) || !errors.Is(err, unix.ENOSPC) && !errors.Is(err, unix.EDQUOT) {
		return err
	}
	return fmt.Errorf("%w: %w", ErrSpace, err)
}

// unreadableError is about a sample that has no pixels, or not the ones that the index
// says it has: it is the file's fault, and no reason to end.
type unreadableError struct{ err error }

func (e *unreadableError) Error() string { return e.err.Error() }
func (e *unreadableError) Unwrap() error { return e.err }

// sourceError is an error about a file of the dataset. What the machine failed at ends the
// run, which can be continued: no result may depend on it.
func sourceError(err error) error {
	if sample.OfFile(err) {
		return &unreadableError{err}
	}
	return err
}
