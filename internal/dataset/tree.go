package dataset

import (
	"cmp"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/batchfs/batchfs/internal/archive"
)

// A tree collects the files in folders. The rows of its index have neither order nor labels.
type tree struct {
	*index
	folders map[string]bool // paths of folders that may be classes without samples
	others  []object        // files that are not images, in case there are no images
	barred  error           // the error if there is an image; nil: images are allowed
}

func newTree(barred error) *tree {
	return &tree{index: &index{table: newTable(0, 0)}, folders: map[string]bool{}, barred: barred}
}

// add takes a file.
func (t *tree) add(o object) error {
	hidden := archive.Hidden(o.name)
	if hidden || !archive.IsImage(o.name) {
		t.ignore(archive.ExtensionKey(o.name), 1)
		if !hidden {
			t.others = append(t.others, o)
		}
		return nil
	}
	if t.barred != nil {
		return t.barred
	}
	k := t.table.rows()
	if err := t.table.appendRow(o.name, -1); err != nil {
		return err
	}
	t.table.row[k].id = o.id
	if o.version == "" {
		return nil
	}
	return t.table.versions.set(k, o.version)
}

// finish orders the images. If there are none, the archives are the dataset.
func (t *tree) finish() (*index, error) {
	if t.table.rows() == 0 {
		t.packed = packed(t.others)
		return t.index, nil
	}
	o, err := t.arrange("", t.folders, false)
	if err == nil {
		t.table.arrange(&o)
	}
	return t.index, err
}

// A folder has the rows of one folder.
type folder struct {
	path  string // with a slash at its end, or empty
	label int32
	rows  []int32
}

// class is the class of a path that contains a slash.
func class(path string) string { return path[:strings.IndexByte(path, '/')] }

// arrange determines the order and labels of rows as in a directory of their paths, or in the
// directory within, which ends with a slash: classes by name, in a class the folders by path, then
// the files by name. If classes have images, images outside of them are ignored. folders must have
// the paths of folders without samples, since these are classes, too. If lift is set and everything
// is in one folder of folders, that folder is the dataset.
func (x *index) arrange(within string, folders map[string]bool, lift bool) (order, error) {
	all, lifted := foldersOf(x.table, within), ""
	x.classes = nil
	if lift {
		lifted = strings.Clone(commonFolder(all))
	}
	if flat := all[lifted]; flat != nil && len(all) > 1 {
		delete(all, lifted)
		for _, i := range flat.rows {
			x.ignore(archive.ExtensionKey(x.table.path(int(i))), 1)
		}
	}
	prefix := within + lifted
	labels := map[string]int32{}
	if all[lifted] == nil && len(all) > 0 {
		for dir := range all {
			labels[class(dir[len(lifted):])] = 0
		}
		for dir := range folders {
			if inside, is := strings.CutPrefix(dir, prefix); is && inside != "" {
				labels[class(inside+"/")] = 0
			}
		}
		for _, name := range slices.SortedFunc(maps.Keys(labels), CompareNames) {
			name = strings.Clone(name) // instead of a part of the memory of all paths
			labels[name] = int32(len(x.classes))
			x.classes = append(x.classes, name)
		}
	}
	for dir, f := range all {
		if f.label = -1; len(labels) > 0 {
			f.label = labels[class(dir[len(lifted):])]
		}
	}
	o := order{rows: make([]int32, 0, x.table.rows()), naming: naming{Prefix: prefix}}
	for _, f := range slices.SortedFunc(maps.Values(all), func(a, b *folder) int {
		return cmp.Or(cmp.Compare(a.label, b.label), CompareNames(strings.TrimSuffix(a.path, "/"), strings.TrimSuffix(b.path, "/")))
	}) {
		skip := len(within) + len(f.path)
		name := func(i int32) string { return x.table.path(int(i))[skip:] }
		slices.SortFunc(f.rows, func(a, b int32) int { return CompareNames(name(a), name(b)) })
		for k, i := range f.rows {
			if k > 0 && name(i) == name(f.rows[k-1]) {
				return o, fmt.Errorf("%q is there twice", x.table.path(int(i))[len(prefix):])
			}
			x.table.row[i].label = f.label
		}
		o.rows = append(o.rows, f.rows...)
	}
	return o, nil
}

// foldersOf returns the folders of a table by path. The paths are relative to the folder within,
// which contains them all.
func foldersOf(t *table, within string) map[string]*folder {
	all := map[string]*folder{}
	var last *folder
	for i := range t.row {
		name := t.path(i)[len(within):]
		dir := name[:strings.LastIndexByte(name, '/')+1]
		if last == nil || last.path != dir {
			if last = all[dir]; last == nil {
				last = &folder{path: dir}
				all[dir] = last
			}
		}
		last.rows = append(last.rows, int32(i))
	}
	return all
}

// commonFolder is the path of the folder that is the dataset, if it contains all folders, or if it
// is the only one and is named like a part of a dataset.
func commonFolder(all map[string]*folder) string {
	common, first := "", true
	for dir := range all {
		if len(all) == 1 && len(partOf(path.Base(dir))) > 0 {
			return dir
		}
		parent := dir[:strings.LastIndexByte(strings.TrimSuffix(dir, "/"), '/')+1]
		if first {
			common, first = parent, false
		}
		common = shared(common, parent)
	}
	return common
}

// shared is the innermost folder, with its slash, that contains two folders.
func shared(common, other string) string {
	for !strings.HasPrefix(other, common) {
		common = common[:strings.LastIndexByte(strings.TrimSuffix(common, "/"), '/')+1]
	}
	return common
}
