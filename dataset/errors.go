package dataset

import "errors"

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
	// ErrShort is what a Prober returns, wrapped or not, when it needs more bytes.
	ErrShort = errors.New("more bytes are needed")

	// ErrMissing: the file of a sample is gone.
	ErrMissing = errors.New("file is missing")
	// ErrChanged: the file of a sample is not the one that was indexed. The words go
	// where users read why a file is bad, so they say what helps.
	ErrChanged = errors.New("file changed since it was indexed (batchfs index DATASET, and the next mount takes it as it is)")
	// ErrNotFile: what stands at a sample's path is no regular file.
	ErrNotFile = errors.New("not a regular file")
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
