package dataset

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/batchfs/batchfs/internal/owned"
)

// Share is one of N equal parts of the work on a dataset, counted from 0. The zero value is all of
// it.
type Share struct {
	K int `json:"k"`
	N int `json:"n"`
}

func (p Share) String() string { return fmt.Sprintf("%d/%d", p.K, p.N) }

// Span returns the share's items, lo to hi-1, of n.
func (p Share) Span(n int) (lo, hi int) {
	if p.N == 0 {
		return 0, n
	}
	return n * p.K / p.N, n * (p.K + 1) / p.N
}

// A PartsError says that parts are missing or useless, so they cannot be joined.
type PartsError struct {
	Parts []Share // the parts to make, in order; empty if even their number is unknown
	Err   error   // why the first of them is unusable
}

func (e *PartsError) Error() string {
	if len(e.Parts) == 0 {
		return "no part has been made"
	}
	first := e.Parts[0]
	if len(e.Parts) == 1 {
		return fmt.Sprintf("part %s %v", first, e.Err)
	}
	return fmt.Sprintf("%d of %d parts cannot be joined: part %s %v", len(e.Parts), first.N, first, e.Err)
}

var (
	errNoPart  = errors.New("is missing")
	errListing = errors.New("is of the dataset as it was before")
)

// PartPath is the path of a part's file, for a base path.
func PartPath(base string, part Share, extension string) string {
	return fmt.Sprintf("%s-%05d-of-%05d%s", base, part.K, part.N, extension)
}

// EachPart calls use for all parts of a base path, in order, whether or not their files exist. The
// newest file determines how many parts there are. The error is a [PartsError] if use fails for
// some.
func EachPart(base, extension string, use func(part Share, path string) error) error {
	n, newest := 0, time.Time{}
	paths, _ := filepath.Glob(escapePattern(base) + "-*-of-*" + extension)
	for _, path := range paths {
		var part Share
		_, err := fmt.Sscanf(strings.TrimPrefix(path, base), "-%d-of-%d", &part.K, &part.N)
		info, gone := os.Lstat(path)
		if err == nil && gone == nil && path == PartPath(base, part, extension) && info.ModTime().After(newest) {
			n, newest = part.N, info.ModTime()
		}
	}
	e := &PartsError{}
	for k := range n {
		part := Share{k, n}
		err := use(part, PartPath(base, part, extension))
		if errors.Is(err, fs.ErrNotExist) {
			err = errNoPart
		}
		if err != nil {
			e.Parts, e.Err = append(e.Parts, part), cmp.Or(e.Err, err)
		}
	}
	if n > 0 && len(e.Parts) == 0 {
		return nil
	}
	return e
}

// storedPart is a part's result as it is stored.
type storedPart struct {
	Digest string          `json:"dataset"`
	Found  json.RawMessage `json:"found"`
}

// KeepPart stores the result of work on a part of the dataset beside its index, as JSON. kind names
// the kind of work.
func (d *Dataset) KeepPart(part Share, kind string, found any) error {
	if d.indexFile == "" {
		return d.noIndex()
	}
	text, err := json.Marshal(found)
	if err == nil {
		text, err = json.Marshal(storedPart{d.Digest, text})
	}
	if err != nil {
		return err
	}
	return owned.Replace(PartPath(indexBase(d.indexFile), part, "."+kind+".json"), func(f *os.File) error {
		_, err := f.Write(text)
		return err
	})
}

// EachPart calls use with the stored result of each part. The error is a [PartsError] if results
// are missing, or not about the dataset as it is now.
func (d *Dataset) EachPart(kind string, use func(found []byte) error) error {
	if d.indexFile == "" {
		return d.noIndex()
	}
	return EachPart(indexBase(d.indexFile), "."+kind+".json", func(part Share, path string) error {
		f, _, err := owned.Open(path, os.O_RDONLY)
		if err != nil {
			return err
		}
		defer f.Close()
		var k storedPart
		if err := json.NewDecoder(f).Decode(&k); err != nil {
			return fmt.Errorf("is damaged: %w", err)
		}
		if k.Digest != d.Digest {
			return errListing
		}
		return use(k.Found)
	})
}
