package dataset

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/batchfs/batchfs/internal/archive"
	"github.com/batchfs/batchfs/internal/store"
)

// marksOf are some of the names that an index of a folder in a store has, as [store.Store.ListAlong] wants them.
func (p *opening) marksOf(x *index) (marks []string) {
	const between = 950 // so that a few new objects do not fill another page
	if x == nil || p.src.remote == nil || len(x.table.objects) > 0 {
		return nil
	}
	for i := between; i < x.table.rows(); i += between {
		marks = append(marks, p.src.prefix+x.table.file(i))
	}
	slices.Sort(marks) // the samples are in another order
	return slices.Compact(marks)
}

// listPrefix lists the objects below a prefix of keys as if they were the files of a directory.
func (p *opening) listPrefix() (*index, error) {
	x := &index{table: newTable(0, 0)}
	var found []object
	folders := map[string]bool{}
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
			folders[top] = true
		}
		if !isFolder {
			found = append(found, object{name, o.Version, identityOf(o)})
		}
		return nil
	})
	switch {
	case errors.Is(err, store.ErrNoList):
		return nil, fmt.Errorf("%s: %w: %w", p.src.dir, ErrKind, err)
	case err != nil:
		return nil, err
	case len(found) == 0:
		return nil, fmt.Errorf("%s: %w", p.src.dir, ErrNotExist)
	}
	a := arrange(len(found), func(i int) string { return found[i].name }, folders, false)
	if len(a.order) == 0 {
		if x.packed = packed(found); len(x.packed) == 0 {
			x.Ignored = a.ignored
		}
		return x, nil
	}
	x.classes, x.Ignored = a.classes, a.ignored
	for k, i := range a.order {
		o := &found[i]
		if err := x.table.appendRow(o.name, a.label[i]); err != nil {
			return nil, err
		}
		x.table.row[k].id = o.id
		if err := x.table.versions.set(k, o.version); err != nil {
			return nil, err
		}
	}
	return x, nil
}
