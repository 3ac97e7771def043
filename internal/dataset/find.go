package dataset

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"

	"golang.org/x/sync/errgroup"

	"github.com/batchfs/batchfs/internal/archive"
	"github.com/batchfs/batchfs/internal/store"
)

// asked is how many requests to a store run at a time while a dataset is opened.
const asked = 64

// archives returns the objects that match the source's patterns: in the order of the patterns, and
// by name where a pattern defines no order.
func (s *storage) archives(ctx context.Context) (all []object, err error) {
	var names []string
	for _, pattern := range s.src.archives {
		list, err := expand(pattern)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", s.src.name(), err)
		}
		for _, one := range list {
			if name, ok := literal(one); ok {
				names = append(names, name)
				continue
			}
			found, err := s.glob(ctx, one)
			if err != nil {
				return nil, err
			}
			if len(found) == 0 {
				return nil, fmt.Errorf("%s: %w", s.src.nameOf(one), ErrNotExist)
			}
			names = append(names, found...)
		}
	}
	known := map[string]bool{}
	for _, name := range names {
		if known[name] {
			return nil, fmt.Errorf("%s: %s is named twice", s.src.name(), s.src.nameOf(name))
		}
		known[name] = true
	}
	return s.findAll(ctx, names)
}

// glob returns the names that match a pattern, sorted.
func (s *storage) glob(ctx context.Context, pattern string) (names []string, err error) {
	if s.src.remote == nil {
		paths, err := filepath.Glob(filepath.Join(escapePattern(s.src.dir), pattern))
		for _, path := range paths {
			names = append(names, strings.TrimPrefix(strings.TrimPrefix(path, s.src.dir), "/"))
		}
		slices.SortFunc(names, CompareNames)
		return names, err
	}
	err = s.src.remote.List(ctx, s.src.prefix+beginning(pattern), func(o store.Object) error {
		name := strings.TrimPrefix(o.Name, s.src.prefix)
		ok, err := path.Match(pattern, name)
		if ok {
			names = append(names, name)
		}
		return err
	})
	slices.SortFunc(names, CompareNames)
	return names, err
}

// findAll looks up files or objects by name. If several fail, the error is that of the first in
// names.
func (s *storage) findAll(ctx context.Context, names []string) ([]object, error) {
	objects, errs := make([]object, len(names)), make([]error, len(names))
	var group errgroup.Group
	var failed atomic.Bool
	group.SetLimit(asked)
	for i, name := range names {
		if failed.Load() {
			break // all names before this one were looked up
		}
		group.Go(func() error {
			if objects[i], errs[i] = s.find(ctx, name); errs[i] != nil {
				failed.Store(true)
			}
			return nil
		})
	}
	_ = group.Wait()
	return objects, cmp.Or(errs...)
}

func (s *storage) find(ctx context.Context, name string) (object, error) {
	if err := checkName(name); err != nil {
		return object{}, err
	}
	if s.src.remote == nil {
		id, err := s.look(name)
		if err != nil {
			err = &fs.PathError{Op: "stat", Path: filepath.Join(s.src.dir, name), Err: err}
		}
		if errors.Is(err, fs.ErrNotExist) {
			err = fmt.Errorf("%s: %w", filepath.Join(s.src.dir, name), ErrNotExist)
		}
		return object{name: name, id: id}, err
	}
	o, err := s.src.remote.Stat(ctx, s.src.prefix+name)
	if errors.Is(err, store.ErrNotExist) {
		err = fmt.Errorf("%w: %w", ErrNotExist, err)
	}
	return object{name: name, version: o.Version, id: identityOf(o)}, err
}

// openWhole opens an object in the version that was found.
func (s *storage) openWhole(o object) (file, error) {
	if s.src.remote != nil {
		return stored(s.src.prefix+o.name, o.version, o.id), nil
	}
	f, err := s.open(o.name)
	if err != nil {
		return f, err
	}
	if f.whole != o.id {
		s.close(&f)
		return noFile, ErrChanged
	}
	return f, nil
}

// checkName validates an object's name, as cleanPath validates a sample's path.
func checkName(name string) error {
	clean, outside, err := cleanPath(name)
	if err == nil && (outside || clean != name) {
		err = fmt.Errorf("%q is not the name of a file below the dataset's directory", name)
	}
	return err
}

// packed picks the archives of a folder without images, from files that are not hidden: those of
// the most frequent kind, by name.
func packed(files []object) (all []object) {
	counts := map[string]int{}
	most := ""
	for _, f := range files {
		kind := archive.ExtensionKey(f.name)
		if !archive.Is(f.name) {
			continue
		}
		counts[kind]++
		if n := counts[kind]; n > counts[most] || n == counts[most] && kind < most {
			most = kind
		}
	}
	for _, f := range files {
		if archive.Is(f.name) && archive.ExtensionKey(f.name) == most {
			all = append(all, f)
		}
	}
	slices.SortFunc(all, func(a, b object) int { return CompareNames(a.name, b.name) })
	return all
}

// splitWords are words in archive names that say which part of a dataset an archive holds.
var splitWords = strings.Fields("train training trainval val valid validation minival test testing dev eval evaluation holdout unlabeled unlabelled")

// checkSplits refuses a folder whose archives hold different parts of a dataset.
func checkSplits(folder string, files []object) error {
	splits, meant := map[string]string{}, ""
	for _, f := range files {
		split := ""
		for _, word := range strings.FieldsFunc(strings.ToLower(f.name), func(r rune) bool { return r < 'a' || r > 'z' }) {
			if slices.Contains(splitWords, word) {
				split = word
				break
			}
		}
		splits[split] = f.name
		if meant == "" || strings.HasPrefix(split, "train") {
			meant = f.name
		}
	}
	if len(splits) < 2 {
		return nil
	}
	return &AmbiguousError{Path: folder, Parts: slices.Sorted(maps.Keys(splits)), Meant: patternLike(meant)}
}

// patternLike returns a pattern for the archives numbered like the given one.
func patternLike(name string) string {
	base := path.Base(name)
	digits := strings.IndexAny(base, "0123456789")
	if digits < 0 {
		return name
	}
	return path.Join(path.Dir(name), base[:digits]+"*"+path.Ext(base))
}

// An AmbiguousError says that a folder seems to hold several parts of a dataset, such as train and
// validation, or several kinds of files, such as images and masks.
type AmbiguousError struct {
	Path    string
	Folders bool     // the parts are folders below Path, which would become its classes, not archives
	Parts   []string // names of the parts
	Meant   string   // the folder, or pattern of archives, that is probably meant; relative to Path
}

func (e *AmbiguousError) Error() string {
	what := "files are named like several parts of a dataset"
	if e.Folders {
		what = "folders are named like parts of a dataset or kinds of files, not like classes"
	}
	const most = 5
	names := strings.Join(e.Parts[:min(most, len(e.Parts))], ", ")
	if len(e.Parts) > most {
		names += ", ..."
	}
	return fmt.Sprintf("%s: its %s: %s", e.Path, what, names)
}
