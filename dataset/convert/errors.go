package convert

import (
	"errors"
	"fmt"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/batchfs/batchfs/dataset"
)

// Errors of Write; test for them with errors.Is.
var (
	// ErrNotEmpty: the output exists, is not empty, and is not what this run would make.
	ErrNotEmpty = errors.New("directory is not empty")
	// ErrInside: the result would lie inside the dataset and become part of it.
	ErrInside = errors.New("lies inside the dataset")
	// ErrMountpoint: a file system is mounted at the output, so a rename cannot replace it.
	ErrMountpoint = errors.New("is a mountpoint")
	// ErrBusy: another process is writing the same result.
	ErrBusy = errors.New("another batchfs convert is writing it")
	// ErrForeign: something else occupies the name of the unfinished tree.
	ErrForeign = errors.New("is not the unfinished work of batchfs convert")
	// ErrSettings: an unfinished run had other settings.
	ErrSettings = errors.New("was begun with other settings")
	// ErrSource: the dataset changed during this run or since an unfinished run began.
	ErrSource = errors.New("the dataset changed")
	// ErrSpace: the disk is full. What was made so far stays, so that a run can continue it.
	ErrSpace = errors.New("not enough space")
	// ErrName: a file of the result cannot have its name; the text names the files.
	ErrName = errors.New("no name for its copy")
)

// classified wraps an error about a full disk, an exceeded quota or a changed file in the error
// that says so.
func classified(err error) error {
	wrap := func(class error, causes ...error) {
		caused := slices.ContainsFunc(causes, func(cause error) bool { return errors.Is(err, cause) })
		if caused && !errors.Is(err, class) {
			err = fmt.Errorf("%w: %w", class, err)
		}
	}
	wrap(ErrSpace, unix.ENOSPC, unix.EDQUOT)
	wrap(ErrSource, dataset.ErrChanged, dataset.ErrMissing, dataset.ErrNotFile)
	return err
}
