package dataset

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
)

// The index of a store is saved while it is made. What was found in archives is saved as the index of a part is,
// with the names that are in them, in files of which each holds some of the archives. The rows are saved in one file,
// which has the form of the index.

// unfinished is where the index is while headers are read; see savedRows.
func (p *opening) unfinished() string { return p.indexBase() + ".part" }

// foundFiles returns the files with what was found in archives.
func (p *opening) foundFiles() []string {
	paths, _ := filepath.Glob(escapePattern(p.indexBase()) + ".found-[0-9][0-9][0-9][0-9][0-9]")
	return paths
}

// saveUnfinished saves what is known of an index that is not complete.
func (p *opening) saveUnfinished(x *index, path string) {
	x.describe(p.src)
	if err := saveIndex(p.ctx, path, x); err != nil && p.ctx.Err() == nil {
		p.Logger.Warn("an interruption would lose what was read", "reason", err)
	}
}

// removeUnfinished is for when the index is complete.
func (p *opening) removeUnfinished() {
	for _, path := range append(p.foundFiles(), p.unfinished()) {
		_ = os.Remove(path)
	}
}

// nothingOf is for [index.remember] before anything is known.
func nothingOf(objects []object) map[object]*found {
	known := make(map[object]*found, len(objects))
	for _, o := range objects {
		known[o] = nil
	}
	return known
}

// known is what earlier indexes, and files of an interrupted search, say about objects; nil for those of which they say nothing.
func (p *opening) known(objects []object, earlier []*index) map[object]*found {
	known := nothingOf(objects)
	for _, x := range earlier {
		if x != nil && !x.Stamp.Unsettled {
			x.remember(known)
		}
	}
	if p.indexFile == "" {
		return known
	}
	for _, path := range p.foundFiles() {
		x, err := loadIndex(p.ctx, path, p.src)
		if err != nil {
			p.Logger.Warn("what was found before an interruption is not used", "file", path, "reason", err)
			continue
		}
		x.remember(known)
	}
	return known
}

// foundStep is how many bytes of archives are searched before what was found in them is saved, or the 64th part of all.
// A variable for tests.
var foundStep int64 = 1 << 30

// A finder saves what is found in archives of a store. What it saved once it does not save again, so that this costs
// little however many there are.
type finder struct {
	*opening
	step int64
	mu   sync.Mutex

	// Not saved yet:
	objects []object
	found   []found
	bytes   int64
}

func (p *opening) keepFound(objects []object) *finder {
	f := &finder{opening: p}
	for _, o := range objects {
		f.step += o.id.Size / 64
	}
	f.step = max(f.step, foundStep)
	return f
}

// add takes what was found in an object.
func (f *finder) add(o object, has found) {
	if f.src.remote == nil || f.indexFile == "" {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.objects, f.found, f.bytes = append(f.objects, o), append(f.found, has), f.bytes+o.id.Size
	if f.bytes >= f.step {
		f.save()
	}
}

// save saves what was added since the last time.
func (f *finder) save() {
	if len(f.objects) == 0 {
		return
	}
	for k := range f.found { // which is still needed
		t := f.found[k].table
		f.found[k].table = &table{paths: t.paths, row: slices.Clone(t.row), bad: t.bad, members: t.members}
	}
	x := &index{facts: facts{Part: cmp.Or(f.Part, Share{0, 1})}, table: newTable(0, 0)}
	if err := x.addMembers(f.objects, f.found, ""); err == nil { // else the whole index will say so
		number := 0
		if paths := f.foundFiles(); len(paths) > 0 {
			_, _ = fmt.Sscanf(filepath.Ext(paths[len(paths)-1]), ".found-%d", &number)
		}
		f.saveUnfinished(x, fmt.Sprintf("%s.found-%05d", f.indexBase(), number+1))
	}
	f.objects, f.found, f.bytes = nil, nil, 0
}
