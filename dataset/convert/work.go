package convert

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"os"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/batchfs/batchfs/dataset"
	"github.com/batchfs/batchfs/dataset/sample"
	"github.com/batchfs/batchfs/internal/parallel"
)

// makeFiles makes first the raw files, until it is known which samples are raw, and then the
// others.
func (c *conversion) makeFiles(ctx context.Context) error {
	if c.names.manifest == "" {
		for _, class := range c.ds.Classes() { // even empty ones, because they number the classes
			if err := c.stage.makeDir(class, c.ds.Root()); err != nil {
				return err
			}
		}
	}
	memory := sample.NewMemory(c.o.Memory, c.o.Workers)
	these := func(raw bool) (all []int32) {
		for i, k := range c.kinds {
			if (k == chosen) == raw {
				all = append(all, int32(i))
			}
		}
		return all
	}
	for raw := these(true); len(raw) > 0; raw = c.choose() {
		if err := c.each(ctx, memory, raw, c.makeRaw); err != nil {
			return err
		}
	}
	return c.each(ctx, memory, these(false), c.keep)
}

func (c *conversion) each(ctx context.Context, memory *sample.Memory, samples []int32, do func(context.Context, *Maker, int) error) error {
	return parallel.Each(ctx, c.o.Workers, len(samples), nil, func(ctx context.Context, items iter.Seq[int]) error {
		m := NewMaker(c.ds, c.o, memory)
		defer m.Close()
		for k := range items {
			if err := do(ctx, m, int(samples[k])); err != nil {
				return err
			}
		}
		return nil
	})
}

// name is sample i's path in the result, once its raw copy is made.
func (c *conversion) name(i int) string {
	switch {
	case c.kinds[i] != chosen:
		return c.names.kept(i)
	case c.gray[i]:
		return c.names.kept(i) + ".pgm"
	}
	return c.names.kept(i) + c.names.exts[0]
}

// makeRaw makes the raw copy of sample i, or finds out that it is unreadable.
func (c *conversion) makeRaw(ctx context.Context, m *Maker, i int) error {
	if there, err := c.foundRaw(i); there || err != nil {
		return err
	}
	defer m.Done()
	raw, err := m.Make(ctx, i)
	switch {
	case errors.Is(err, dataset.ErrChanged), errors.Is(err, dataset.ErrMissing), errors.Is(err, dataset.ErrNotFile):
		return fmt.Errorf("%w: %w", ErrSource, err)
	case sample.OfFile(err):
		c.spoil(i, reasonOf(err))
		return nil
	case err != nil:
		return err
	}
	info, err := os.Stat(c.names.source(i))
	if err != nil {
		return fmt.Errorf("%w: %w", ErrSource, err)
	}
	err = c.stage.create(temporary(i), info.Mode().Perm(), func(out *os.File) (time.Time, error) {
		return time.Unix(0, c.ds.Stat(i).ModTime), raw.Write(out)
	})
	if err != nil {
		return err
	}
	c.gray[i] = raw.Ext == ".pgm"
	return c.finish(i, &c.report.Converted)
}

// keep keeps sample i as it is: as a link, a clone or a copy, whichever works first.
func (c *conversion) keep(_ context.Context, _ *Maker, i int) error {
	there, err := c.found(i, func(info fs.FileInfo) bool {
		if info.Mode().Type() == fs.ModeSymlink {
			return c.kinds[i] == unreadable
		}
		return c.ds.Same(i, identityOf(info))
	})
	if there || err != nil {
		return err
	}
	temp, source := temporary(i), c.names.source(i)
	how, err := c.stage.keep(temp, source)
	count := [...]*int{&c.report.Linked, &c.report.Cloned, &c.report.Copied}[how]
	if sample.OfFile(err) {
		if err := c.judge(i, err); err != nil {
			return err
		}
		count, err = &c.report.Symlinked, c.stage.root.Symlink(source, temp)
	}
	if err != nil {
		return err
	}
	info, err := c.stage.root.Lstat(temp)
	if err != nil {
		return err
	}
	if count != &c.report.Symlinked && !c.ds.Same(i, identityOf(info)) {
		return errors.Join(c.changed(i, dataset.ErrChanged), c.stage.remove(temp))
	}
	return c.finish(i, count)
}

// judge marks a sample that can be neither linked nor read. If it was there before, that is an
// error.
func (c *conversion) judge(i int, err error) error {
	switch {
	case c.kinds[i] == unreadable:
		return nil
	case !errors.Is(err, unix.ENOENT) && !errors.Is(err, unix.ENOTDIR):
		c.spoil(i, reasonOf(err))
		return nil
	}
	if _, err := c.ds.Check(i); err != nil && !dataset.OfFile(err) {
		return err // the storage is away, with all its files
	}
	return c.changed(i, dataset.ErrMissing)
}

func (c *conversion) changed(i int, err error) error {
	return fmt.Errorf("%w: %w", ErrSource, &dataset.FileError{Path: c.ds.Path(i), Err: err})
}

// foundRaw looks for the raw copy from an earlier run.
func (c *conversion) foundRaw(i int) (there bool, err error) {
	transform := c.o.transform()
	h, w := transform.Size(c.ds.Size(i, c.o.IgnoreOrientation))
	for k := range c.names.exts {
		c.gray[i] = k > 0
		want := dataset.Identity{Size: newRaw(c.o.Format, h, w, k > 0).Size(), ModTime: c.ds.Stat(i).ModTime}
		if there, err = c.found(i, func(info fs.FileInfo) bool { return identityOf(info) == want }); there || err != nil {
			break
		}
	}
	return there, err
}

// found looks for the file that an earlier run made of sample i. It removes one that is not
// right, such as one left incomplete by a power cut.
func (c *conversion) found(i int, right func(fs.FileInfo) bool) (bool, error) {
	if !c.report.Resumed {
		return false, nil
	}
	info, err := c.stage.root.Lstat(c.name(i))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return false, nil
	case err != nil:
		return false, err
	case right(info):
		return true, c.advance(i, &c.report.Reused)
	}
	return false, c.stage.remove(c.name(i))
}

// finish puts sample i's file into place and counts it.
func (c *conversion) finish(i int, count *int) error {
	if err := c.stage.put(temporary(i), c.name(i), c.ds.Root()); err != nil {
		return err
	}
	return c.advance(i, count)
}

// advance counts a sample. In a continued run it also removes what an earlier one made of the
// sample while others were readable. To a manifest such a file does not matter, and it may
// belong to another of its rows.
func (c *conversion) advance(i int, count *int) error {
	if c.report.Resumed && c.names.manifest == "" {
		for _, ext := range slices.Concat(c.names.exts, []string{""}) {
			if name := c.names.kept(i) + ext; name != c.name(i) {
				if err := c.stage.remove(name); err != nil {
					return err
				}
			}
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	*count++
	if c.done++; c.o.Progress != nil {
		c.o.Progress(int64(c.done), int64(c.ds.Len()))
	}
	return nil
}
