package dataset

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/batchfs/batchfs/internal/option"
)

// source is a dataset's location: a directory, or a manifest in one.
type source struct {
	dir      string // that paths are relative to; absolute, links resolved
	manifest string // file name in it; "" for a directory
	labels   string // the manifest's column of labels; "" for the usual one
	seen     atomic.Pointer[fs.FileInfo]
	mu       sync.Mutex // held while the directory is examined
}

// remoteName matches URLs.
var remoteName = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9+.-]*://`)

// archiveKinds are extensions of files that hold many images.
var archiveKinds = strings.Fields("tar tgz gz bz2 xz zst zip 7z rar tfrecord mds beton rec lmdb h5 hdf5 arrow")

// locate determines what path is.
func locate(path string, o *Options) (*source, error) {
	if remoteName.MatchString(path) {
		return nil, fmt.Errorf("%s: %w", path, ErrRemote)
	}
	abs, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	info, err := os.Stat(abs)
	missing := errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOTDIR)
	switch {
	case (missing || err == nil && !info.IsDir()) && slices.Contains(archiveKinds, extensionKey(filepath.Base(path))):
		return nil, fmt.Errorf("%s: %w", path, ErrArchive)
	case missing:
		return nil, fmt.Errorf("%s: %w", path, ErrNotExist)
	case err != nil:
		return nil, err
	}
	src, dir := &source{labels: o.LabelColumn}, abs
	if !info.IsDir() {
		if !info.Mode().IsRegular() || manifestReader(abs) == nil {
			return nil, fmt.Errorf("%s: %w", path, ErrKind)
		}
		// Resolve only the directory: paths are relative to the directory of the given name,
		// even if that name is a link.
		dir, src.manifest = filepath.Dir(abs), filepath.Base(abs)
	} else if src.manifest, err = metadata(abs, o); err != nil {
		return nil, err
	}
	if o.LabelColumn != "" && src.manifest == "" {
		return nil, &option.Error{Field: "label column", Rule: "left out: the dataset has no manifest", Value: o.LabelColumn}
	}
	if src.dir, err = filepath.EvalSymlinks(dir); err != nil {
		return nil, err
	}
	if info, err = os.Stat(src.dir); err != nil {
		return nil, err
	}
	src.seen.Store(&info)
	return src, nil
}

// metadata finds the manifest in a directory, as in Hugging Face's image folders; "" if it has none.
func metadata(dir string, o *Options) (name string, err error) {
	if o.IgnoreMetadata {
		return "", nil
	}
	for _, n := range []string{"metadata.csv", "metadata.jsonl", "metadata.parquet"} {
		switch info, err := os.Stat(filepath.Join(dir, n)); {
		case errors.Is(err, fs.ErrNotExist):
		case err != nil:
			return "", err
		case name != "":
			return "", fmt.Errorf("%s: %w: %s and %s", dir, ErrManifests, name, n)
		case info.Mode().IsRegular():
			name = n
		}
	}
	return name, nil
}

// name is the path of the dataset's directory or manifest.
func (s *source) name() string { return filepath.Join(s.dir, s.manifest) }

// identity distinguishes what can be read from the datasets on this machine.
func (s *source) identity() string {
	if s.labels == "" {
		return s.name()
	}
	return s.name() + "\x00" + s.labels
}

// examine finds out whether the storage is the reason why a file could not be reached. again means
// that seen is no longer the directory that is there, and the file may be in the present one. An
// error says why the file cannot be judged: ErrAway, or a lack of resources.
func (s *source) examine(seen *fs.FileInfo, table *table) (again bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.seen.Load() != seen {
		return true, nil
	}
	now, err := os.Stat(s.dir)
	if err == nil {
		// A directory without search permission hides its files; a network file system behaves
		// this way when a ticket has expired.
		err = unix.Faccessat(unix.AT_FDCWD, s.dir, unix.X_OK, unix.AT_EACCESS)
	}
	if err == nil {
		if os.SameFile(now, *seen) {
			return false, nil
		}
		if s.holds(table) {
			s.seen.Store(&now)
			return true, nil
		}
		err = errors.New("another directory is at its path, without the dataset's files")
	}
	if isLack(err) {
		return false, err
	}
	return false, fmt.Errorf("%w: %s: %s (mount it again, and reading continues)", ErrAway, s.dir, reason(err))
}

// holds says whether any of a few samples, spread evenly over all, exists below the directory.
// Their identities do not matter here; each read checks its own.
func (s *source) holds(t *table) bool {
	n := min(16, t.rows())
	for k := range n {
		if _, err := (kernel{}).look(s.dir, t.path(k*t.rows()/n)); err == nil || err == ErrNotFile {
			return true
		}
	}
	return false
}

// retry repeats a system call that signals interrupt.
func retry[T any](call func() (T, error)) (T, error) {
	for {
		value, err := call()
		if err != unix.EINTR {
			return value, err
		}
	}
}
