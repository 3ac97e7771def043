package convert

import (
	"context"
	"errors"
	"fmt"
	"path"

	"golang.org/x/sys/unix"

	"github.com/batchfs/batchfs/dataset"
)

// worker processes one sample at a time.
type worker struct {
	*conversion
	number int
	maker  *Maker
}

func (w *worker) sample(ctx context.Context, i int) error {
	if !w.wanted[i] {
		return w.keep(i)
	}
	err := w.makeRaw(ctx, i)
	var bad *unreadableError
	if errors.As(err, &bad) {
		w.spoil(i, bad.err)
		return w.keep(i)
	}
	return err
}

// makeRaw ensures that sample i's raw copy exists.
func (w *worker) makeRaw(ctx context.Context, i int) error {
	if there, err := w.foundRaw(i); there || err != nil {
		return err
	}
	defer w.maker.Done()
	content, ext, err := w.maker.Make(ctx, i)
	if err != nil {
		return err
	}
	name := w.tree.raw(i, ext)
	if err := w.files.makeDir(path.Dir(name)); err != nil {
		return err
	}
	if err := w.files.write(w.number, name, w.ds.Path(i), content, w.ds.Stat(i).ModTime); err != nil {
		return err
	}
	w.setExt(i, ext)
	w.count(&w.report.Converted)
	return nil
}

// foundRaw looks for the raw copy from an earlier run.
func (w *worker) foundRaw(i int) (bool, error) {
	if !w.report.Resumed {
		return false, nil
	}
	h, width := w.o.transform().Size(w.ds.Size(i, w.o.IgnoreOrientation))
	r := newRawFile(w.o.Format, h, width)
	want := dataset.Identity{ModTime: w.ds.Stat(i).ModTime}
	for _, ext := range w.tree.exts {
		want.Size = r.size()
		if ext == ".pgm" {
			want.Size = r.graySize()
		}
		name := w.tree.raw(i, ext)
		f, err := w.files.look(name)
		switch {
		case err != nil:
			return false, err
		case f == nil:
		case f.Identity == want:
			w.setExt(i, ext)
			w.count(&w.report.Reused)
			return true, nil
		default: // left incomplete by a power cut
			if err := w.files.remove(name); err != nil {
				return false, err
			}
		}
	}
	return false, nil
}

// keep ensures that sample i exists as it is.
func (w *worker) keep(i int) error {
	name := w.tree.kept(i)
	if there, err := w.foundKept(i, name); there || err != nil {
		return err
	}
	if err := w.files.makeDir(path.Dir(name)); err != nil {
		return err
	}
	how, err := w.place(i, name)
	if err != nil {
		return err
	}
	w.count([...]*int{&w.report.Linked, &w.report.Cloned, &w.report.Copied, &w.report.Symlinked}[how])
	return nil
}

// foundKept looks for the kept file of an earlier run.
func (w *worker) foundKept(i int, name string) (bool, error) {
	if !w.report.Resumed {
		return false, nil
	}
	f, err := w.files.look(name)
	if f == nil || err != nil {
		return false, err
	}
	if f.link && w.bad(i) || !f.link && w.ds.Same(i, f.Identity) {
		w.count(&w.report.Reused)
		return true, nil
	}
	return false, w.files.remove(name)
}

// place keeps the file as a link, a clone or a copy, whichever works first.
func (w *worker) place(i int, name string) (kept, error) {
	source := w.ds.Path(i)
	if there, err := w.files.link(name, source); err != nil {
		return 0, err
	} else if there {
		return linked, w.checkLinked(i, name)
	}
	how, err := w.files.copy(w.number, name, source, func(st *unix.Stat_t) error {
		if !w.ds.Same(i, identityOf(st)) {
			return w.changed(i, dataset.ErrChanged)
		}
		return nil
	})
	var bad *unreadableError
	if !errors.As(err, &bad) {
		return how, err
	}
	if !w.bad(i) {
		if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR) {
			if _, err := w.ds.Check(i); err != nil && !dataset.OfFile(err) {
				return 0, err // the storage is away, with all its files
			}
			return 0, w.changed(i, dataset.ErrMissing)
		}
		w.spoil(i, bad.err)
	}
	return symlinked, w.files.symlink(name, source)
}

// checkLinked verifies that the file that was linked is the one that was indexed.
func (w *worker) checkLinked(i int, name string) error {
	f, err := w.files.look(name)
	if err != nil {
		return err
	}
	if f != nil && w.ds.Same(i, f.Identity) {
		return nil
	}
	if err := w.files.remove(name); err != nil {
		return err
	}
	return w.changed(i, dataset.ErrChanged)
}

func (w *worker) changed(i int, err error) error {
	return fmt.Errorf("%w: %w", ErrSource, &dataset.FileError{Path: w.ds.Path(i), Err: err})
}
