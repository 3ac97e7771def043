package dataset

import (
	"context"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/batchfs/batchfs/internal/archive"
	"github.com/batchfs/batchfs/internal/fault"
)

// readBatch is how many directory entries are read at a time.
const readBatch = 1024

// walker lists the tree of a directory dataset.
type walker struct {
	ctx context.Context
	src *source
	out *index

	others []object // files that are no images, in case there are only such
}

// folder is one listed directory: its path relative to the root, and its contents.
type folder struct {
	path   string
	self   fs.FileInfo
	images []string // sorted names
	dirs   []string
}

// listDirectory lists a directory of class directories, or a flat one: if class directories have
// images, those in the root are ignored.
func listDirectory(ctx context.Context, src *source) (*index, error) {
	w := &walker{ctx: ctx, src: src, out: &index{table: newTable(0, 0)}}
	top, err := w.read("", nil)
	if err != nil {
		return nil, err
	}
	slices.SortFunc(top.dirs, CompareNames)
	for label, class := range top.dirs {
		folders, err := w.descend(class, []fs.FileInfo{top.self}, nil)
		if err != nil {
			return nil, err
		}
		slices.SortFunc(folders, func(a, b folder) int { return CompareNames(a.path, b.path) })
		for _, f := range folders {
			if err := w.add(f, int32(label)); err != nil {
				return nil, err
			}
		}
	}
	if w.out.table.rows() == 0 {
		err := w.add(top, -1)
		if w.out.table.rows() == 0 {
			w.out.packed = packed(w.others)
		}
		return w.out, err
	}
	w.out.classes = top.dirs
	for _, name := range top.images {
		w.out.ignore(archive.ExtensionKey(name), 1)
	}
	return w.out, nil
}

// descend appends the directory at path, and those below it, to all.
func (w *walker) descend(path string, above []fs.FileInfo, all []folder) ([]folder, error) {
	f, err := w.read(path, above)
	if err != nil {
		return nil, err
	}
	if len(f.images) > 0 {
		all = append(all, f)
	}
	above = append(above, f.self)
	for _, name := range f.dirs {
		if all, err = w.descend(path+"/"+name, above, all); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// add appends the images of a directory to the table.
func (w *walker) add(f folder, label int32) error {
	for _, name := range f.images {
		p := path.Join(f.path, name)
		if len(p) > maxPath {
			return fmt.Errorf("%s: path is longer than %d bytes", p, maxPath)
		}
		if err := w.out.table.appendRow(p, label); err != nil {
			return err
		}
	}
	return w.ctx.Err()
}

// read lists one directory; above are the directories it was reached through.
func (w *walker) read(path string, above []fs.FileInfo) (f folder, err error) {
	if err := w.ctx.Err(); err != nil {
		return f, err
	}
	d, err := os.OpenFile(filepath.Join(w.src.dir, path), os.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		return f, err
	}
	defer d.Close()
	now := time.Now()
	self, err := d.Stat()
	if err != nil {
		return f, err
	}
	f = folder{path: path, self: self}
	if slices.ContainsFunc(above, func(dir fs.FileInfo) bool { return os.SameFile(dir, self) }) {
		return f, fmt.Errorf("%s: %w", filepath.Join(w.src.dir, w.lastLink(path)), errLinkCycle)
	}
	w.out.Dirs = append(w.out.Dirs, dirStamp{[]byte(path), newStamp(self.ModTime(), now)})
	for err != io.EOF {
		var entries []fs.DirEntry
		if entries, err = d.ReadDir(readBatch); err != nil && err != io.EOF {
			return f, err
		}
		for _, e := range entries {
			if err := w.place(&f, e); err != nil {
				return f, err
			}
		}
		if err := w.ctx.Err(); err != nil {
			return f, err
		}
	}
	slices.SortFunc(f.images, CompareNames)
	return f, nil
}

// lastLink is the link through which path was reached: path itself, or the nearest directory
// above it that is a link.
func (w *walker) lastLink(path string) string {
	for p := path; p != "."; p = filepath.Dir(p) {
		if info, err := os.Lstat(filepath.Join(w.src.dir, p)); err == nil && info.Mode()&fs.ModeSymlink != 0 {
			return p
		}
	}
	return path
}

// place sorts an entry into its directory. A broken link counts as a file, as in os.walk; but a
// link into storage that fails might lead to a class, without which all labels would shift.
func (w *walker) place(f *folder, e fs.DirEntry) error {
	name, dir := e.Name(), e.IsDir()
	if e.Type()&fs.ModeSymlink != 0 {
		info, err := os.Stat(filepath.Join(w.src.dir, f.path, name))
		if err != nil && fault.Of(err) != fault.File {
			return err
		}
		dir = err == nil && info.IsDir()
	}
	switch {
	case dir && archive.Hidden(name):
	case dir:
		f.dirs = append(f.dirs, name)
	case archive.IsImage(name) && !archive.Hidden(name):
		f.images = append(f.images, name)
	default:
		w.out.ignore(archive.ExtensionKey(name), 1)
		if !archive.Hidden(name) {
			w.others = append(w.others, object{name: path.Join(f.path, name)})
		}
	}
	return nil
}
