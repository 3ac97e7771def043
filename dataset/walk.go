package dataset

import (
	"context"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

// readBatch is how many directory entries are read at a time.
const readBatch = 1024

// walker lists the tree of a directory dataset.
type walker struct {
	ctx  context.Context
	root string
	fd   int // of the root directory
	out  *listing
}

// folder is one listed directory: its path relative to the root, and its contents.
type folder struct {
	path   string
	images []string // sorted names
	dirs   []string
}

// inode identifies a directory whatever path led to it.
type inode struct{ dev, ino uint64 }

// listDirectory lists a directory of class directories, or a flat one.
func listDirectory(ctx context.Context, src *source) (*listing, error) {
	w := &walker{ctx: ctx, root: src.root, fd: src.fd(), out: &listing{table: newStore(0, 0)}}
	top, self, err := w.read("", nil)
	if err != nil {
		return nil, err
	}
	classes := top.dirs
	slices.SortFunc(classes, CompareNames)
	for label, class := range classes {
		if err := w.class(class, int32(label), []inode{self}); err != nil {
			return nil, err
		}
	}
	return w.out, w.finish(top, classes)
}

// finish decides what the images in the root are: the samples of a flat dataset, or ignored if
// class directories have images.
func (w *walker) finish(top folder, classes []string) error {
	if w.out.table.rows() > 0 {
		w.out.classes = classes
		for _, name := range top.images {
			w.out.ignore(name)
		}
		return nil
	}
	return w.add(top, -1)
}

// class appends the samples of one class, its directories in path order.
func (w *walker) class(name string, label int32, above []inode) error {
	folders, err := w.descend(name, above, nil)
	if err != nil {
		return err
	}
	slices.SortFunc(folders, func(a, b folder) int { return CompareNames(a.path, b.path) })
	for _, f := range folders {
		if err := w.ctx.Err(); err != nil {
			return err
		}
		if err := w.add(f, label); err != nil {
			return err
		}
	}
	return nil
}

// descend appends the directory at path, and those below it, to all.
func (w *walker) descend(path string, above []inode, all []folder) ([]folder, error) {
	f, self, err := w.read(path, above)
	if err != nil {
		return nil, err
	}
	if len(f.images) > 0 {
		all = append(all, folder{path: path, images: f.images})
	}
	above = append(above, self)
	for _, name := range f.dirs {
		if all, err = w.descend(path+"/"+name, above, all); err != nil {
			return nil, err
		}
	}
	return all, nil
}

func (w *walker) add(f folder, label int32) error {
	for _, name := range f.images {
		path := name
		if f.path != "" {
			path = f.path + "/" + name
		}
		if len(path) > maxPath {
			return fmt.Errorf("%s: path is longer than %d bytes", path, maxPath)
		}
		if err := w.out.table.appendRow(path, label); err != nil {
			return err
		}
	}
	return nil
}

// read lists one directory; above are the directories it was reached through.
func (w *walker) read(path string, above []inode) (folder, inode, error) {
	f := folder{path: path}
	if err := w.ctx.Err(); err != nil {
		return f, inode{}, err
	}
	d, err := os.OpenFile(filepath.Join(w.root, path), os.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		return f, inode{}, err
	}
	defer d.Close()
	var st unix.Stat_t
	now := time.Now()
	if err := unix.Fstat(int(d.Fd()), &st); err != nil {
		return f, inode{}, &fs.PathError{Op: "stat", Path: d.Name(), Err: err}
	}
	self := inode{uint64(st.Dev), st.Ino}
	if slices.Contains(above, self) {
		return f, self, fmt.Errorf("%s: %w", filepath.Join(w.root, w.lastLink(path)), ErrLinkCycle)
	}
	w.out.dirs = append(w.out.dirs, dirStamp{path, newStamp(mtimeOf(&st), now)})
	for {
		entries, err := d.ReadDir(readBatch)
		for _, e := range entries {
			w.place(&f, e)
		}
		if err := w.ctx.Err(); err != nil {
			return f, self, err
		}
		if err == io.EOF {
			break
		}
		if err != nil {
			return f, self, err
		}
	}
	slices.SortFunc(f.images, CompareNames)
	return f, self, nil
}

// lastLink is the link through which path was reached: path itself, or the nearest directory
// above it that is a link.
func (w *walker) lastLink(path string) string {
	for p := path; p != "."; p = filepath.Dir(p) {
		if info, err := os.Lstat(filepath.Join(w.root, p)); err == nil && info.Mode()&fs.ModeSymlink != 0 {
			return p
		}
	}
	return path
}

func (w *walker) place(f *folder, e fs.DirEntry) {
	name := e.Name()
	switch {
	case w.leadsToDir(f.path, e):
		if !hidden(name) {
			f.dirs = append(f.dirs, name)
		}
	case isImage(name) && !hidden(name):
		f.images = append(f.images, name)
	default:
		w.out.ignore(name)
	}
}

// leadsToDir follows links; a broken link counts as a file, as in os.walk.
func (w *walker) leadsToDir(path string, e fs.DirEntry) bool {
	if e.Type()&fs.ModeSymlink == 0 {
		return e.IsDir()
	}
	st, err := statFrom(w.fd, filepath.Join(path, e.Name()))
	return err == nil && isDir(&st)
}
