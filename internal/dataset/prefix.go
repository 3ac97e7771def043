package dataset

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/batchfs/batchfs/internal/archive"
	"github.com/batchfs/batchfs/internal/store"
)

// marksOf returns a sample of the names in an index of a store's folder, for
// [store.Store.ListAlong].
func marksOf(x *index, src *source) (marks []string) {
	const between = 950 // less than a page, so that a few new objects do not fill another one
	if x == nil || src.remote == nil || len(x.table.objects) > 0 {
		return nil
	}
	for i := between; i < x.table.rows(); i += between {
		marks = append(marks, src.prefix+x.table.file(i))
	}
	slices.Sort(marks) // the index has another order
	return slices.Compact(marks)
}

// listPrefix lists the objects below a prefix of keys like the files of a directory.
func (p *opening) listPrefix() (*index, error) {
	t, found := newTree(p.barred), false
	err := p.src.remote.ListAlong(p.ctx, p.src.prefix, p.marks, func(o store.Object) error {
		name := strings.TrimPrefix(o.Name, p.src.prefix)
		file, isFolder := strings.CutSuffix(name, "/")
		switch err := checkName(file); {
		case err != nil && archive.IsImage(name) && !strings.HasPrefix(name, "."):
			return fmt.Errorf("%s: %w; rename the object", p.src.remote.URL(o.Name), err)
		case err != nil:
			return nil
		}
		if top, _, nested := strings.Cut(name, "/"); nested && !archive.Hidden(top) {
			t.folders[top] = true
		}
		if isFolder {
			return nil
		}
		found = true
		return t.add(object{name, o.Version, identityOf(o)})
	})
	switch {
	case errors.Is(err, store.ErrNoList):
		return nil, fmt.Errorf("%s: %w: %w", p.src.dir, ErrKind, err)
	case err != nil:
		return nil, err
	case !found:
		return nil, fmt.Errorf("%s: %w", p.src.dir, ErrNotExist)
	}
	return t.finish()
}
