package convert

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/batchfs/batchfs/internal/dataset"
	"github.com/batchfs/batchfs/internal/owned"
	"github.com/batchfs/batchfs/internal/resolve"
)

const (
	// stagingSuffix names the unfinished tree, next to the finished one: only there is a rename
	// sure to stay on one file system.
	stagingSuffix = ".partial"
	// scratchName is the directory inside it where files are made.
	scratchName = ".batchfs-convert.tmp"
	// partMark begins the names of files that record finished parts.
	partMark = ".batchfs-convert.made"
)

// tree is the directory in which the result grows. A process that has it open holds a lock on
// the marker, so no other process works in it, unless both make parts.
type tree struct {
	out      string // the result's final path, absolute and without links
	path     string // of the unfinished result
	earlier  *mark  // what an earlier run finished or, once the tree is open, began; else nil
	finished bool   // the result is already there
	root     *os.Root
	marker   *os.File
	step     func()
	part     dataset.Share // the part to make; zero: everything
}

// scratch is the directory where this process makes files.
func (t *tree) scratch() string {
	if t.part.N == 0 {
		return scratchName
	}
	return dataset.PartPath(scratchName+"/part", t.part, "")
}

// findTree checks that a dataset may appear at out. The directory of a manifest, or of archives,
// may well be a home directory: the dataset is only what they contain, so the result may lie in
// that directory. source is empty if the dataset is in a store.
func findTree(out, source string, manifest bool) (*tree, error) {
	abs, err := filepath.Abs(out)
	if err != nil {
		return nil, err
	}
	t := &tree{out: resolve.Links(abs)}
	t.path = t.out + stagingSuffix
	if source != "" && (!manifest && resolve.Within(t.out, source) || resolve.Within(source, t.path)) {
		return nil, fmt.Errorf("%s %w %s", out, ErrInside, source)
	}
	first, err := firstEntry(t.out)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return t, nil
	case err != nil:
		return nil, err
	case first == "":
		return t, notMounted(t.out)
	}
	text, err := readMark(filepath.Join(t.out, markerName))
	if err == nil {
		t.earlier, err = parseMark(text)
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("%s: %w: it holds %s", t.out, ErrNotEmpty, first)
	case err != nil:
		return nil, fmt.Errorf("%s: %w: it holds %s (%w)", t.out, ErrNotEmpty, first, err)
	}
	t.finished = true
	return t, nil
}

// readMark reads the marker of a conversion, if no other user can have written it.
func readMark(path string) ([]byte, error) {
	f, _, err := owned.Open(path, os.O_RDONLY)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(f)
}

// firstEntry is some name in a directory, preferably not the marker's; "" if it is empty.
func firstEntry(dir string) (name string, err error) {
	entries, err := os.ReadDir(dir)
	for _, e := range entries {
		if name = e.Name(); name != markerName {
			break
		}
	}
	return name, err
}

// notMounted returns an error if a file system is mounted at dir.
func notMounted(dir string) error {
	var st unix.Statx_t
	if err := unix.Statx(unix.AT_FDCWD, dir, 0, 0, &st); err != nil {
		return &fs.PathError{Op: "stat", Path: dir, Err: err}
	}
	if st.Attributes&unix.STATX_ATTR_MOUNT_ROOT != 0 {
		return fmt.Errorf("%s %w", dir, ErrMountpoint)
	}
	return nil
}

// open makes or finds the unfinished tree, locks it, and finds out what an earlier run began. The
// result gets no more permissions than source.
func (t *tree) open(source string) error {
	mode := fs.FileMode(0o755)
	if source != "" {
		info, err := os.Stat(source)
		if err != nil {
			return err
		}
		mode = info.Mode().Perm() | 0o700
	}
	err := os.MkdirAll(filepath.Dir(t.path), 0o755)
	if err == nil {
		err = os.Mkdir(t.path, mode)
	}
	if errors.Is(err, fs.ErrExist) {
		info, e := os.Stat(t.path)
		if err = e; err == nil && !info.IsDir() {
			err = fmt.Errorf("%s %w", t.path, ErrForeign)
		}
	}
	if err != nil {
		return err
	}
	if t.root, err = os.OpenRoot(t.path); err != nil {
		return err
	}
	if t.marker, err = t.root.OpenFile(markerName, os.O_RDWR|os.O_CREATE|unix.O_NONBLOCK, 0o644); err != nil {
		return err
	}
	if info, err := t.marker.Stat(); err != nil || !info.Mode().IsRegular() {
		return errors.Join(err, fmt.Errorf("%s %w: its %s is not a regular file", t.path, ErrForeign, markerName))
	}
	if err := t.lock(); err != nil {
		return err
	}
	text, err := io.ReadAll(t.marker)
	if err != nil {
		return err
	}
	if t.earlier, err = parseMark(text); err == nil {
		return nil
	}
	// A run writes its marker before anything else.
	first, err := firstEntry(t.path)
	if err == nil && first != markerName {
		err = fmt.Errorf("%s %w: it holds %s, and no %s or a damaged one", t.path, ErrForeign, first, markerName)
		if len(text) == 0 {
			err = errors.Join(err, t.root.Remove(markerName))
		}
	}
	return err
}

// lock makes sure that no other process works here or has just finished. Among processes that make
// parts, the first holds the lock exclusively until it has written the marker; the others wait for
// this.
func (t *tree) lock() error {
	info, err := t.marker.Stat()
	if err != nil {
		return err
	}
	if t.part.N > 0 && info.Size() > 0 {
		return t.share()
	}
	err = owned.Lock(t.marker, unix.LOCK_EX|unix.LOCK_NB)
	if t.part.N > 0 && err == unix.EWOULDBLOCK {
		return t.share()
	}
	return t.locked(err)
}

// share waits for the lock that all makers of parts hold.
func (t *tree) share() error { return t.locked(owned.Lock(t.marker, unix.LOCK_SH)) }

// locked interprets the result of an attempt to lock.
func (t *tree) locked(err error) error {
	if err != nil && err != unix.EWOULDBLOCK {
		return &fs.PathError{Op: "lock", Path: t.marker.Name(), Err: err}
	}
	held, errHeld := t.marker.Stat()
	there, errThere := os.Stat(filepath.Join(t.path, markerName))
	if err != nil || errHeld != nil || errThere != nil || !os.SameFile(held, there) {
		return fmt.Errorf("%s: %w", t.path, ErrBusy)
	}
	return nil
}

// begin writes the marker, unless an earlier run did, and removes unfinished files.
func (t *tree) begin(m *mark) error {
	if t.earlier == nil {
		_, err := t.marker.WriteAt(m.text(), 0)
		if err = errors.Join(err, t.marker.Truncate(int64(len(m.text()))), t.marker.Sync()); err != nil {
			return err
		}
	}
	if t.part.N > 0 {
		if err := t.share(); err != nil {
			return err
		}
	}
	err := errors.Join(t.root.RemoveAll(t.scratch()), t.root.MkdirAll(t.scratch(), 0o700))
	t.step()
	return err
}

// finishPart records that a part is finished.
func (t *tree) finishPart() error {
	f, err := t.root.Create(dataset.PartPath(partMark, t.part, ""))
	if err == nil {
		err = f.Close()
	}
	return errors.Join(err, t.root.RemoveAll(t.scratch()))
}

// allParts returns an error if all parts are needed and some are missing.
func (t *tree) allParts(needed bool) error {
	if t.finished || !needed {
		return nil
	}
	return dataset.EachPart(filepath.Join(t.path, partMark), "", func(_ dataset.Share, path string) error {
		_, err := os.Lstat(path)
		return err
	})
}

// place moves a complete file to its place.
func (t *tree) place(temp, name string) error {
	t.step()
	err := t.root.Rename(temp, name)
	t.step()
	return err
}

// finish turns the tree into the result.
func (t *tree) finish() error {
	marks, _ := fs.Glob(t.root.FS(), partMark+"*")
	for _, name := range append(marks, scratchName) {
		if err := t.root.RemoveAll(name); err != nil {
			return err
		}
	}
	t.step()
	// Sync the whole file system with one call instead of one per file. The rename must not
	// reach the disk before the tree does.
	if err := unix.Syncfs(int(t.marker.Fd())); err != nil {
		return &fs.PathError{Op: "sync", Path: t.path, Err: err}
	}
	err := unix.Rename(t.path, t.out) // os.Rename would refuse to replace an empty directory
	if errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("%s: %w", t.out, ErrNotEmpty)
	}
	t.step()
	return os.NewSyscallError("rename to "+t.out, err)
}

// discard removes a tree in which nothing was made. It ignores errors, because the caller is
// already reporting one.
func (t *tree) discard() {
	if t.earlier == nil && t.part.N == 0 {
		_ = t.root.RemoveAll(scratchName)
		_ = t.root.Remove(markerName)
		_ = os.Remove(t.path)
	}
}

// close releases the lock.
func (t *tree) close() {
	t.marker.Close() // nil, which is harmless, if open failed
	if t.root != nil {
		t.root.Close()
	}
}
