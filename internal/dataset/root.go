package dataset

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/batchfs/batchfs/internal/store"
)

// source is a dataset's location: a directory, a manifest in one, archives in one, or a list of
// these. The directory may be a prefix of keys in a store.
type source struct {
	dir      string    // paths are relative to it: absolute, links resolved; in a store, a URL that ends with a slash
	manifest string    // name of the manifest in dir; "" for a directory
	archives []string  // patterns of the archives in dir; nil for a directory
	within   string    // the folder in the archives that is the dataset, with a slash at its end; "": all of them
	list     string    // path or URL of the list that names the archives or entries; "": none
	entries  []*source // the datasets of a list of several, in the list's order
	labels   string    // the manifest's column of labels; "" for the usual one
	remote   store.Store
	prefix   string        // of keys; empty, or with a slash at its end
	store    string        // distinguishes stores whose URLs are the same
	stores   *sharedStores // all stores in use, including those of entries; nil in an entry
	local    *localCache   // in front of the stores; nil: none
	seen     atomic.Pointer[fs.FileInfo]
	mu       sync.Mutex // held while the directory is examined

	// Only in an entry of a list:
	line       int    // line of the list
	lead       string // prefix of this dataset's paths in the table of all entries; without it, they are relative to dir
	first, end int    // its rows of that table; both 0 while it has a table of its own
}

// name is the path of the dataset's directory, manifest or archives.
func (s *source) name() string {
	if s.list != "" {
		return s.list
	}
	file := s.manifest
	switch n := len(s.archives); {
	case n > 1:
		file = s.archives[0] + ",...," + s.archives[n-1]
	case n == 1:
		file = s.archives[0]
	}
	if s.within != "" {
		file += "/" + strings.TrimSuffix(s.within, "/")
	}
	if s.remote != nil {
		return s.dir + file
	}
	return filepath.Join(s.dir, file)
}

func (s *source) close() (err error) {
	if s.local != nil {
		err = s.local.tier.Close()
	}
	return errors.Join(err, s.stores.close())
}

// folder says whether the dataset is everything in its directory.
func (s *source) folder() bool { return s.manifest == "" && s.archives == nil && s.entries == nil }

// inStores says whether samples are in a store.
func (s *source) inStores() bool {
	return s.remote != nil || slices.ContainsFunc(s.entries, (*source).inStores)
}

// file returns the name of the file that holds row i of a table, relative to the directory.
func (s *source) file(t *table, i int) string {
	name := t.file(i)
	if s.end > 0 && !t.isMember(i) {
		name = strings.TrimPrefix(name, s.lead)
	}
	return name
}

// nameOf returns the full path, or the URL, of a file of the dataset.
func (s *source) nameOf(name string) string {
	if s.remote != nil {
		return s.dir + name
	}
	return path.Join(s.dir, name)
}

// identity identifies the location among all that this machine can reach.
func (s *source) identity() string {
	name := s.name()
	if s.list != "" {
		name += "\x00" + s.dir // dir follows from the list
	} else if len(s.archives) > 1 {
		name += "\x00" + strings.Join(s.archives, "\x00")
	}
	return strings.TrimRight(name+"\x00"+s.labels+"\x00"+s.store, "\x00")
}

// examine finds out whether the storage is why a file could not be reached. again means that the
// directory is no longer the one in seen, so the file may be in the present one. An error says why
// the file cannot be judged: ErrAway, or a lack of resources.
func (s *source) examine(seen *fs.FileInfo, table *table) (again bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.seen.Load() != seen {
		return true, nil
	}
	now, err := os.Stat(s.dir)
	if err == nil {
		// A directory without search permission hides its files. A network file system behaves like
		// this when a ticket has expired.
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

// holds says whether any of a few evenly spread samples exists below the directory. Their
// identities do not matter here; each read checks its own.
func (s *source) holds(t *table) bool {
	rows := cmp.Or(s.end, t.rows()) - s.first
	n := min(16, rows)
	for k := range n {
		if _, err := (kernel{}).look(s.dir, s.file(t, s.first+k*rows/n)); err == nil || err == ErrNotFile {
			return true
		}
	}
	return false
}

// retry repeats a system call that a signal interrupted.
func retry[T any](call func() (T, error)) (T, error) {
	for {
		value, err := call()
		if err != unix.EINTR {
			return value, err
		}
	}
}
