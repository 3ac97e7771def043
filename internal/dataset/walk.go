package dataset

import (
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
	*opening
	out *tree
}

// listDirectory lists a directory of class directories, or a flat one.
func (p *opening) listDirectory() (*index, error) {
	w := &walker{p, newTree(p.barred)}
	if err := w.descend("", nil); err != nil {
		return nil, err
	}
	return w.out.finish()
}

// descend lists the directory at a path relative to the root, and the directories below it. above
// are the directories on the way to it.
func (w *walker) descend(dir string, above []fs.FileInfo) error {
	self, dirs, err := w.read(dir, above)
	if err != nil {
		return err
	}
	above = append(above, self)
	slices.SortFunc(dirs, CompareNames) // so that the first error is always the same
	for _, name := range dirs {
		if err := w.descend(path.Join(dir, name), above); err != nil {
			return err
		}
	}
	return nil
}

// read adds the files of one directory, and returns the names of its subdirectories.
func (w *walker) read(dir string, above []fs.FileInfo) (self fs.FileInfo, dirs []string, err error) {
	if err := w.ctx.Err(); err != nil {
		return nil, nil, err
	}
	d, err := os.OpenFile(filepath.Join(w.src.dir, dir), os.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		return nil, nil, err
	}
	defer d.Close()
	now := time.Now()
	if self, err = d.Stat(); err != nil {
		return nil, nil, err
	}
	if slices.ContainsFunc(above, func(dir fs.FileInfo) bool { return os.SameFile(dir, self) }) {
		return nil, nil, fmt.Errorf("%s: %w", filepath.Join(w.src.dir, dir), errLinkCycle)
	}
	w.out.Dirs = append(w.out.Dirs, dirStamp{[]byte(dir), newStamp(self.ModTime(), now)})
	for err != io.EOF {
		var entries []fs.DirEntry
		if entries, err = d.ReadDir(readBatch); err != nil && err != io.EOF {
			return nil, nil, err
		}
		for _, e := range entries {
			isDir, err := w.place(dir, e)
			if err != nil {
				return nil, nil, err
			}
			if isDir {
				dirs = append(dirs, e.Name())
			}
		}
		if err := w.ctx.Err(); err != nil {
			return nil, nil, err
		}
	}
	return self, dirs, nil
}

// place adds an entry of a directory, unless it is a directory that must be listed. A broken link
// counts as a file, as in os.walk. A link into storage that fails is an error: it might lead to a
// class, without which all labels would shift.
func (w *walker) place(dir string, e fs.DirEntry) (isDir bool, err error) {
	name := path.Join(dir, e.Name())
	if isDir = e.IsDir(); e.Type()&fs.ModeSymlink != 0 {
		info, err := os.Stat(filepath.Join(w.src.dir, name))
		if err != nil && fault.Of(err) != fault.File {
			return false, err
		}
		isDir = err == nil && info.IsDir()
	}
	switch {
	case isDir && archive.Hidden(name):
		return false, nil
	case isDir:
		w.out.folders[name] = true
		return true, nil
	case len(name) > maxPath:
		return false, fmt.Errorf("%s: path is longer than %d bytes", name, maxPath)
	}
	return false, w.out.add(object{name: name, id: unknown})
}
