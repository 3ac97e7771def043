package dataset

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// indexVersion names the index layout and the rules for listing datasets and judging headers.
// An index of another version is rebuilt.
const indexVersion = "3"

// index is everything that is kept about a dataset: the table, and the rest of the file's
// metadata.
type index struct {
	name    string // of the source
	table   *store
	classes []string
	dirs    []dirStamp
	facts   facts
}

// facts are the index's counts and stamps, stored as JSON in its metadata. They hold no names,
// which may not be UTF-8.
type facts struct {
	Manifest     bool           `json:"manifest"`
	Rows         int            `json:"rows"`
	PathBytes    int64          `json:"path_bytes"`
	Digest       string         `json:"digest"`
	ModTime      int64          `json:"modtime_ns"`
	Stamp        stamp          `json:"manifest_stamp"`
	ManifestSize int64          `json:"manifest_size"`
	Outside      bool           `json:"outside"`
	Ignored      map[string]int `json:"ignored,omitempty"`
}

func newIndex(src *source, l *listing) *index {
	x := &index{name: src.name(), table: l.table, classes: l.classes, dirs: l.dirs}
	x.facts = facts{
		Manifest: src.manifest != "", Rows: l.table.rows(), PathBytes: l.table.pathBytes(),
		Stamp: l.manifest, ManifestSize: l.manifestSize, Outside: l.outside, Ignored: l.ignored,
		ModTime: l.newest(),
	}
	x.settle()
	return x
}

// settle computes the fields that depend on the scanned rows.
func (x *index) settle() {
	x.facts.Digest = digest(x.table, x.classes)
	for i := range x.table.rows() {
		if id, known := x.table.identity(i); known {
			x.facts.ModTime = max(x.facts.ModTime, id.ModTime)
		}
	}
}

// current says whether the dataset is unchanged since it was listed; false when ctx is done.
func (x *index) current(ctx context.Context, src *source) bool {
	if src.manifest != "" {
		st, err := statFrom(src.fd(), src.manifest)
		return err == nil && st.Size == x.facts.ManifestSize && x.facts.Stamp.proves(mtimeOf(&st))
	}
	for _, d := range x.dirs {
		if ctx.Err() != nil {
			return false
		}
		path := d.path
		if path == "" {
			path = "."
		}
		st, err := statFrom(src.fd(), path)
		if err != nil || !isDir(&st) || !d.proves(mtimeOf(&st)) {
			return false
		}
	}
	return len(x.dirs) > 0
}

var errIndexInside = errors.New("the cache directory lies inside the dataset")

// indexPath returns the path of the dataset's index file.
func indexPath(cacheDir string, src *source) (string, error) {
	dir, err := filepath.Abs(cacheDir)
	if err != nil {
		return "", err
	}
	// This applies only to directories. A manifest's directory may well be a home directory,
	// and its dataset is only what it lists.
	if src.manifest == "" && src.contains(resolveExisting(dir)) {
		return "", fmt.Errorf("%s: %w", dir, errIndexInside)
	}
	sum := sha256.Sum256([]byte(src.name()))
	return filepath.Join(dir, hex.EncodeToString(sum[:16])+".parquet"), nil
}

// resolveExisting resolves links in a path whose last components may not exist.
func resolveExisting(path string) string {
	if real, err := filepath.EvalSymlinks(path); err == nil {
		return real
	}
	parent := filepath.Dir(path)
	if parent == path {
		return path
	}
	return filepath.Join(resolveExisting(parent), filepath.Base(path))
}

// loadIndex reads the index at path; the error says why it cannot be used.
func loadIndex(ctx context.Context, path string, src *source) (*index, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s: %w", path, ErrNotFile)
	}
	if err := yours(path, info); err != nil {
		return nil, err
	}
	if err := verifyIndex(f, info.Size()); err != nil {
		return nil, err
	}
	return readIndex(ctx, f, src)
}

// saveIndex replaces the index atomically. It does not sync: if a crash loses data, the
// checksum reveals it and the index is rebuilt.
func saveIndex(ctx context.Context, path string, x *index) (err error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	if err := yourDirectory(path); err != nil {
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
	if err := writeIndex(ctx, f, x); err != nil {
		return err
	}
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if err := sealIndex(f, info.Size()); err != nil {
		return err
	}
	if err := os.Rename(f.Name(), path); err != nil {
		return err
	}
	removeLeftovers(path)
	return nil
}

const (
	tempMark = ".tmp-"
	tempLife = time.Hour // longer than writing an index ever takes
)

// removeLeftovers removes temporary files left by writers of this index that were killed.
func removeLeftovers(path string) {
	entries, _ := os.ReadDir(filepath.Dir(path))
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), filepath.Base(path)+tempMark) {
			continue
		}
		if info, err := e.Info(); err == nil && time.Since(info.ModTime()) > tempLife {
			os.Remove(filepath.Join(filepath.Dir(path), e.Name()))
		}
	}
}
