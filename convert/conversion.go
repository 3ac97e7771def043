package convert

import (
	"context"
	"errors"
	"fmt"
	"path"
	"sync"

	"golang.org/x/sync/semaphore"
	"golang.org/x/sys/unix"

	"github.com/batchfs/batchfs/dataset"
)

// conversion is the work of one Write.
type conversion struct {
	ds      *dataset.Dataset
	o       Options
	stage   *stage
	files   *files
	survey  *survey
	tree    *tree
	chooser *chooser

	wanted []bool  // samples that shall be raw
	exts   []uint8 // which of the format's extensions a raw sample got
	memory *semaphore.Weighted

	mu     sync.Mutex // the following, and calls of Progress
	done   int
	spoilt map[int32]string // samples that turned out to be unreadable, and why
	report Report
}

// worker does one sample after the other.
type worker struct {
	*conversion
	number int
	maker  *Maker
}

// run makes all files of the result.
func (c *conversion) run(ctx context.Context) error {
	for _, class := range c.directories() {
		if err := c.files.makeDir(class); err != nil {
			return err
		}
	}
	all := func(k int) int { return k }
	if err := c.pass(ctx, c.ds.Len(), all); err != nil {
		return err
	}
	rounds := 1
	for {
		more := c.replaceSpoilt()
		if len(more) == 0 {
			break
		}
		rounds++
		if err := c.pass(ctx, len(more), func(k int) int { return int(more[k]) }); err != nil {
			return err
		}
	}
	if rounds > 1 || c.report.Resumed {
		return c.sweep()
	}
	return nil
}

// directories are those that must be there even if they are empty, since they number the
// classes.
func (c *conversion) directories() []string {
	if c.tree.manifest != "" {
		return nil
	}
	return c.ds.Classes()
}

// want marks samples that shall be raw and returns those that were not marked.
func (c *conversion) want(samples []int32) (added []int32) {
	for _, i := range samples {
		if !c.wanted[i] {
			c.wanted[i] = true
			added = append(added, i)
		}
	}
	return added
}

// replaceSpoilt chooses samples in place of those that could not be read.
func (c *conversion) replaceSpoilt() []int32 {
	spoilt := make(map[int32]bool, len(c.spoilt))
	for i := range c.spoilt {
		spoilt[i] = true
		c.wanted[i] = false
	}
	return c.want(c.chooser.choose(c.report.Ratio, spoilt))
}

// pass works on n samples.
func (c *conversion) pass(ctx context.Context, n int, sample func(k int) int) error {
	return each(ctx, c.o.Workers, n, func(number int) (func(int) error, func()) {
		w := &worker{c, number, NewMaker(c.ds, c.o)}
		return func(k int) error {
			i := sample(k)
			if err := w.sample(ctx, i); err != nil {
				return err
			}
			c.advance()
			return nil
		}, w.maker.Close
	})
}

func (c *conversion) advance() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.done++
	// Samples that take another's place are done a second time.
	if c.o.Progress != nil && c.done <= c.ds.Len() {
		c.o.Progress(int64(c.done), int64(c.ds.Len()))
	}
}

// count adds to the report.
func (c *conversion) count(n *int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	*n++
}

func (c *conversion) spoil(i int, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.spoilt[int32(i)] = reasonOf(err)
}

func (w *worker) sample(ctx context.Context, i int) error {
	if !w.wanted[i] {
		return w.keep(i)
	}
	err := w.makeRaw(ctx, i)
	if errors.Is(err, errUnreadable) {
		w.spoil(i, err)
		return w.keep(i)
	}
	return err
}

// makeRaw makes sure that sample i's raw copy is there.
func (w *worker) makeRaw(ctx context.Context, i int) error {
	if there, err := w.foundRaw(i); there || err != nil {
		return err
	}
	need := min(w.needs(i), w.o.Memory)
	if err := w.memory.Acquire(ctx, need); err != nil {
		return err
	}
	defer w.memory.Release(need)
	defer w.maker.trim()
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

// needs is an estimate of the memory that sample i takes while it is converted: the file, its pixels,
// those of the result, and the coefficients of a progressive JPEG.
func (w *worker) needs(i int) int64 {
	height, width := w.ds.Size(i, false)
	return w.ds.Stat(i).Size + 9*int64(height)*int64(width) + w.o.FileBytes(height, width)
}

// foundRaw looks for the raw copy that an earlier run made.
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
		default: // a power cut got in between
			if err := w.files.remove(name); err != nil {
				return false, err
			}
		}
	}
	return false, nil
}

func (c *conversion) setExt(i int, ext string) {
	for k, e := range c.tree.exts {
		if e == ext {
			c.exts[i] = uint8(k)
		}
	}
}

// name is what sample i is called in the result.
func (c *conversion) name(i int) string {
	if c.wanted[i] {
		return c.tree.raw(i, c.tree.exts[c.exts[i]])
	}
	return c.tree.kept(i)
}

// keep makes sure that sample i is there as it is.
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

// foundKept looks for what an earlier run kept.
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

// bad says whether sample i is known to be unreadable.
func (c *conversion) bad(i int) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.survey.kinds[i] == unreadable || c.spoilt[int32(i)] != ""
}

// place puts the file there: as a link, a clone or a copy, whatever can be had.
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
	var unreadableSource *sourceError
	if !errors.As(err, &unreadableSource) {
		return how, err
	}
	if gone := errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR); gone && !w.bad(i) {
		return 0, w.changed(i, dataset.ErrMissing)
	}
	if !w.bad(i) {
		w.spoil(i, err)
	}
	return symlinked, w.files.symlink(name, source)
}

// checkLinked makes sure that the file that got another name is the one that was indexed.
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

func (c *conversion) changed(i int, err error) error {
	return fmt.Errorf("%w: %w", ErrSource, &dataset.FileError{Path: c.ds.Path(i), Err: err})
}
