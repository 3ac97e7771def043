package dataset

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/batchfs/batchfs/internal/archive"
	"github.com/batchfs/batchfs/internal/fault"
)

// Errors of opening a dataset.
var (
	ErrNotExist  = errors.New("dataset does not exist")
	ErrKind      = errors.New("neither a directory, nor a manifest (.csv, .jsonl, .parquet), nor an archive of images (.tar, .zip, .parquet), nor a list of datasets (.txt)")
	ErrEmpty     = errors.New("no images found")
	ErrNone      = errors.New("none of the images is chosen")         // because of Options.Only
	ErrManifest  = errors.New("bad manifest")                         // the text names the line or row
	ErrOutside   = errors.New("path leaves the manifest's directory") // comes with ErrManifest
	ErrArchive   = errors.New("cannot be used as an archive of images")
	ErrColumn    = archive.ErrLabels                  // of labels; comes with ErrArchive or ErrManifest
	ErrList      = errors.New("bad list of datasets") // the text names the line
	ErrLabels    = errors.New("the labels of some are numbers, those of others names of classes")
	ErrManifests = errors.New("has more than one manifest")
	ErrClasses   = errors.New("labels do not fit the list of classes")
	errLinkCycle = errors.New("a link leads back to a directory above it; remove it, or list the images in a manifest")
)

// An EntryError is an error of opening one dataset of a list.
type EntryError struct {
	Line int
	Name string // of the dataset as the list has it, including any password
	Err  error
}

func (e *EntryError) Error() string { return fmt.Sprintf("line %d: %v", e.Line, e.Err) }

func (e *EntryError) Unwrap() error { return e.Err }

// ErrShort is what a Prober returns, possibly wrapped, when it needs more of a file's beginning.
var ErrShort = errors.New("more bytes are needed")

// Errors about a sample's file, wrapped in a [FileError].
var (
	ErrMissing = fault.New(fault.File, "file is missing")
	// ErrChanged: the file is not the one that was indexed. Users read this text as the reason why
	// a file is bad, so it names the remedy.
	ErrChanged = fault.New(fault.File, "file changed since it was indexed (run batchfs index DATASET, with the --targets of the mount if it has any; then the next one uses its new contents)")
	ErrNotFile = fault.New(fault.File, "not a regular file")
	// ErrAway: the dataset's directory is gone, unreachable, or an empty mountpoint, so nothing
	// is known about the file. The error clears when the storage is back.
	ErrAway     = fault.New(fault.Machine, "the dataset's storage is away")
	ErrStopped  = fault.New(fault.Cancelled, "read was cancelled") // while it waited for bandwidth or a store
	errTooLarge = errors.New("file does not fit the memory given")
)

// FileError says which sample's file an operation failed on. Callers that name the file
// themselves print only its [Reason].
type FileError struct {
	Path string // relative to the dataset's root
	Err  error
}

func (e *FileError) Error() string { return e.Path + ": " + e.Err.Error() }

func (e *FileError) Unwrap() error { return e.Err }

// Reason is the text of a [FileError] without the path, or err itself if it is not a FileError.
func Reason(err error) error {
	if file, ok := errors.AsType[*FileError](err); ok {
		return file.Err
	}
	return err
}

// isLack says whether an error means that the machine lacks the resources to open any file.
func isLack(err error) bool {
	var errno unix.Errno
	return errors.As(err, &errno) &&
		(errno == unix.EMFILE || errno == unix.ENFILE || errno == unix.ENOMEM || errno == unix.ENOBUFS)
}

// isStorage says whether an error may come from storage that is away: that can look like a missing
// or unreadable file.
func isStorage(err error) bool {
	var errno unix.Errno
	return errors.As(err, &errno) && !isLack(err)
}
