package dataset

import (
	"errors"

	"golang.org/x/sys/unix"
)

var (
	// ErrNotExist: there is nothing at the dataset's path.
	ErrNotExist = errors.New("dataset does not exist")
	// ErrKind: the dataset's path is neither a directory nor a manifest.
	ErrKind = errors.New("neither a directory nor a manifest (.csv, .jsonl, .parquet)")
	// ErrEmpty: the dataset has no samples.
	ErrEmpty = errors.New("no images found")
	// ErrManifest: a manifest's content is wrong; the text names the line.
	ErrManifest = errors.New("bad manifest")
	// ErrOutside: a manifest's path leaves its directory. It comes with ErrManifest.
	ErrOutside = errors.New("path leaves the manifest's directory")
	// ErrLinkCycle: a link leads back to a directory above it; the text names the link.
	ErrLinkCycle = errors.New("link leads back to a directory above it; remove it, or list the images in a manifest")
	// ErrShort is what a Prober returns, wrapped or not, when it needs more of a file's beginning.
	ErrShort = errors.New("more bytes are needed")

	// ErrMissing: the file of a sample is gone.
	ErrMissing = errors.New("file is missing")
	// ErrChanged: the file of a sample is not the one that was indexed. The words go
	// where users read why a file is bad, so they say what helps.
	ErrChanged = errors.New("file changed since it was indexed (batchfs index DATASET, and the next mount takes it as it is)")
	// ErrNotFile: what stands at a sample's path is no regular file.
	ErrNotFile = errors.New("not a regular file")
	// ErrAway: the dataset's directory is gone, cannot be reached, or is an empty
	// mountpoint, so nothing is known of the file. It passes when the storage is back.
	ErrAway = errors.New("the dataset's storage is away")
	// ErrStopped: a read that waited for bandwidth was called off.
	ErrStopped = errors.New("read was called off")
	// ErrTooLarge: the caller of Read gave no memory for the file.
	ErrTooLarge = errors.New("file does not fit the memory given")
)

// FileError says which sample's file an operation failed on. Who names the file
// anyway says only its [Reason].
type FileError struct {
	Path string // relative to the dataset's root
	Err  error
}

func (e *FileError) Error() string { return e.Path + ": " + e.Err.Error() }

func (e *FileError) Unwrap() error { return e.Err }

// Reason is what a [FileError] says without the path, or err if it is none.
func Reason(err error) error {
	var file *FileError
	if errors.As(err, &file) {
		return file.Err
	}
	return err
}

// OfFile says whether an error of this package is about the sample's file itself: it is
// missing, another one, no regular file, or may not be read, or its path leads in
// circles ([ErrMissing], [ErrChanged], [ErrNotFile]; ENOENT, ENOTDIR, ELOOP, EACCES).
// Only such an error may be remembered of a file, or decide what stands in its place.
// Every other error number is the machine's: what it lacks, or storage that fails or
// is away ([ErrAway]). An error of the machine's wins over one of the file's that it
// led to. [ErrTooLarge] and [ErrStopped] are the caller's own.
func OfFile(err error) bool {
	if errors.Is(err, ErrAway) {
		return false
	}
	var errno unix.Errno
	if errors.As(err, &errno) {
		switch errno {
		case unix.ENOENT, unix.ENOTDIR, unix.ELOOP, unix.EACCES:
			return true
		}
		return false
	}
	return errors.Is(err, ErrMissing) || errors.Is(err, ErrChanged) || errors.Is(err, ErrNotFile)
}

// isLack says whether an error is about what the machine lacks to look at any file.
func isLack(err error) bool {
	var errno unix.Errno
	if !errors.As(err, &errno) {
		return false
	}
	switch errno {
	case unix.EMFILE, unix.ENFILE, unix.ENOMEM, unix.ENOBUFS:
		return true
	}
	return false
}

// isStorage says whether an error may come from storage that is away, which can look
// like a file that is not there or may not be read.
func isStorage(err error) bool {
	var errno unix.Errno
	return errors.As(err, &errno) && errno != unix.ELOOP && !isLack(err)
}
