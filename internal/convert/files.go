package convert

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/batchfs/batchfs/decode"
	"github.com/batchfs/batchfs/internal/dataset"
	"github.com/batchfs/batchfs/internal/fault"
	"github.com/batchfs/batchfs/internal/parallel"
	"github.com/batchfs/batchfs/internal/sample"
	"github.com/batchfs/batchfs/shard"
)

// directories are the directories of the result, parents first.
func (c *conversion) directories() []string {
	seen := map[string]bool{".": true}
	add := func(dir string) {
		for ; !seen[dir]; dir = path.Dir(dir) {
			seen[dir] = true
		}
	}
	if c.names.manifest == "" {
		for _, class := range c.ds.Classes { // even empty classes, because they affect the numbers of the others
			add(class)
		}
	}
	for i := range c.states {
		add(path.Dir(c.names.kept(i)))
	}
	delete(seen, ".")
	return slices.Sorted(maps.Keys(seen))
}

// makeFiles makes the directories, with the permissions of those of the same name in the source.
// Then it makes raw files until it is known which samples are raw, then packed files likewise, then
// the others.
func (c *conversion) makeFiles(ctx context.Context) error {
	for _, dir := range c.directories() {
		mode := fs.FileMode(0o755)
		if info, err := os.Stat(filepath.Join(c.ds.Root, dir)); c.names.local && err == nil && info.IsDir() {
			mode = info.Mode().Perm() | 0o700
		}
		if err := c.tree.root.Mkdir(dir, mode); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
	}
	memory := sample.NewMemory(c.o.Memory, c.o.Workers)
	for _, f := range []shard.Cost{shard.Raw, shard.Packed} {
		for samples := unmade(c.states, c.o.Part, f); len(samples) > 0; samples = unmade(c.states, c.o.Part, f) {
			if err := c.each(ctx, memory, samples); err != nil {
				return err
			}
			c.choose()
		}
	}
	return c.each(ctx, memory, unmade(c.states, c.o.Part, shard.Encoded))
}

// unmade are the samples of a part without a file yet that get form f; for encoded, those that stay
// as they are.
func unmade(states []state, part dataset.Share, f shard.Cost) (samples []int32) {
	first, end := part.Span(len(states))
	for i := first; i < end; i++ {
		if s := &states[i]; !s.made && (s.becomes(f) || f == shard.Encoded && s.unchanged()) {
			samples = append(samples, int32(i))
		}
	}
	return samples
}

func (c *conversion) each(ctx context.Context, memory *sample.Memory, samples []int32) error {
	return parallel.Each(ctx, c.o.Workers, len(samples), nil, func(ctx context.Context, items iter.Seq[int]) error {
		m := NewMaker(c.ds, c.o, memory)
		defer m.Close()
		for k := range items {
			if err := c.makeFile(ctx, m, int(samples[k])); err != nil {
				return err
			}
		}
		return nil
	})
}

// temporary is the name under which a sample's file is made.
func (t *tree) temporary(i int) string { return path.Join(t.scratch(), strconv.Itoa(i)) }

// makeFile makes sample i's file, unless an earlier run did.
func (c *conversion) makeFile(ctx context.Context, m *Maker, i int) (err error) {
	if ext, there := c.found(i); there {
		c.placed(i, ext, &c.report.Reused)
		return nil
	}
	ext, how := "", &c.report.Converted
	if c.states[i].unchanged() {
		how, err = c.keep(ctx, m, i)
	} else if ext, err = c.make(ctx, m, i); ext == "" { // it is kept later
		return err
	}
	if err != nil {
		return err
	}
	if err := c.tree.place(c.tree.temporary(i), c.names.kept(i)+ext); err != nil {
		return err
	}
	c.placed(i, ext, how)
	return nil
}

// found looks for the file of sample i from an earlier run, under each name it may have now. An
// incomplete file, for example after a power cut, will be replaced.
func (c *conversion) found(i int) (ext string, there bool) {
	if !c.report.Resumed {
		return "", false
	}
	s, exts := c.states[i], []string{""}
	if !s.unchanged() {
		exts = c.names.exts[s.to]
	}
	for _, ext := range exts {
		name := c.names.kept(i) + ext
		info, err := c.tree.root.Lstat(name)
		switch {
		case err != nil:
		case info.Mode().Type() == fs.ModeSymlink:
			there = s.unreadable
		case s.unchanged():
			there = c.ds.Same(i, identityOf(info))
		case info.ModTime().UnixNano() != c.ds.Stat(i).ModTime:
		case s.to == shard.Packed:
			there = c.tree.isPacked(name, info.Size())
		default:
			h, w := c.ds.Size(i, c.o.IgnoreOrientation)
			there = info.Size() == c.o.fileBytes(h, w, ext == ".pgm")
		}
		if there {
			return ext, true
		}
	}
	return "", false
}

// isPacked says whether a file is a complete packed image, by its header.
func (t *tree) isPacked(name string, size int64) bool {
	f, err := t.root.Open(name)
	if err != nil {
		return false
	}
	defer f.Close()
	head := make([]byte, min(size, 4096))
	if _, err := io.ReadFull(f, head); err != nil {
		return false
	}
	h, err := decode.ReadHeader(head, int64(len(head)) == size)
	return err == nil && h.Format == decode.Packed && h.Plausible(size) == nil
}

func identityOf(info fs.FileInfo) dataset.Identity {
	return dataset.Identity{Size: info.Size(), ModTime: info.ModTime().UnixNano()}
}

// placed counts a sample whose file is in place. how is the count to increase.
func (c *conversion) placed(i int, ext string, how *int) {
	c.states[i].ext, c.states[i].made = ext, true
	c.mu.Lock()
	defer c.mu.Unlock()
	*how++
	if c.done++; c.o.Progress != nil {
		c.o.Progress(int64(c.done), int64(c.end-c.first))
	}
}

// clear removes files of earlier runs and parts whose names are unused in the result: they chose
// other samples while different ones were readable. Only now is it known that no other row of a
// manifest has such a name.
func (c *conversion) clear(ctx context.Context) error {
	if !c.report.Resumed {
		return nil
	}
	used := map[string]bool{}
	for _, dir := range c.directories() {
		used[dir] = true
	}
	for i, s := range c.states {
		used[c.names.kept(i)+s.ext] = true
	}
	exts := append([]string{""}, c.names.possible(state{})...)
	return parallel.Each(ctx, c.o.Workers, len(c.states), nil, func(_ context.Context, items iter.Seq[int]) error {
		for i := range items {
			for _, ext := range exts {
				name := c.names.kept(i) + ext
				if used[name] {
					continue
				}
				if err := c.tree.root.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
					return err
				}
			}
		}
		return nil
	})
}

// make makes the raw or packed copy of sample i under its temporary name. It returns the extension
// for the final name, "" if the sample stays as it is.
func (c *conversion) make(ctx context.Context, m *Maker, i int) (ext string, err error) {
	defer m.Done()
	file, err := m.Make(ctx, i, c.states[i].to)
	switch {
	case errors.Is(err, decode.ErrNoPackedForm):
		c.notPacked(i)
		return "", nil
	case spoils(err):
		c.spoil(i, err)
		return "", nil
	case err != nil:
		return "", err
	}
	mode := fs.FileMode(0o644)
	if c.names.local {
		info, err := os.Stat(c.names.source(i))
		if err != nil {
			return "", fmt.Errorf("%w: %w", ErrSource, err)
		}
		mode = info.Mode().Perm()
	}
	return file.Ext, c.tree.create(c.tree.temporary(i), mode, func(out *os.File) (time.Time, error) {
		return time.Unix(0, c.ds.Stat(i).ModTime), file.Write(out)
	})
}

// keep keeps sample i as it is, under its temporary name: as a link, a clone or a copy, whichever
// works first, or as a symbolic link if it can be neither linked nor read. It returns the count in
// the report to increase.
func (c *conversion) keep(ctx context.Context, m *Maker, i int) (how *int, err error) {
	temp, source := c.tree.temporary(i), c.names.source(i)
	if c.names.local {
		how, err = c.tree.keep(temp, source, &c.report.Plan)
	} else {
		defer m.Done()
		var data []byte
		if data, err = c.fetch(ctx, m, i); err == nil {
			return &c.report.Copied, c.tree.create(temp, 0o644, func(out *os.File) (time.Time, error) {
				_, err := out.Write(data)
				return time.Unix(0, c.ds.Stat(i).ModTime), err
			})
		}
	}
	if fault.Of(err) == fault.File {
		if !c.states[i].unreadable {
			now := err
			if c.names.local {
				_, now = c.ds.Check(i)
			}
			if now != nil && !spoils(now) {
				return nil, now // the file has changed, or the storage is away
			}
			c.spoil(i, err)
		}
		return &c.report.Symlinked, c.tree.root.Symlink(source, temp)
	}
	if err != nil {
		return nil, err
	}
	info, err := c.tree.root.Lstat(temp)
	if err == nil && !c.ds.Same(i, identityOf(info)) {
		err = errors.Join(&dataset.FileError{Path: c.ds.Path(i), Err: dataset.ErrChanged}, c.tree.root.Remove(temp))
	}
	return how, err
}

// fetch returns the bytes of sample i, which is in an archive or a store. They belong to m until
// Done.
func (c *conversion) fetch(ctx context.Context, m *Maker, i int) ([]byte, error) {
	if problem := c.ds.Problem(i); problem != "" && c.ds.Stat(i).Size == 0 { // such as a link in a tar
		return nil, fault.New(fault.File, problem)
	}
	return m.Fetch(ctx, i)
}

// keep makes a link, a clone or a copy of a file under a temporary name, and returns the count in p
// to increase.
func (t *tree) keep(temp, source string, p *Plan) (how *int, err error) {
	// Unlike os.Link, this follows symbolic links of the source.
	err = unix.EINTR
	for err == unix.EINTR {
		err = unix.Linkat(unix.AT_FDCWD, source, unix.AT_FDCWD, filepath.Join(t.path, temp), unix.AT_SYMLINK_FOLLOW)
	}
	switch err {
	case nil:
		t.step()
		return &p.Linked, nil
	case unix.ENOSPC, unix.EDQUOT, unix.EROFS, unix.EIO:
		return nil, &os.LinkError{Op: "link", Old: source, New: temp, Err: err}
	}
	// EXDEV, EPERM, EMLINK and others: a copy works instead, or fails with its own error.
	in, err := os.OpenFile(source, os.O_RDONLY|unix.O_NONBLOCK|unix.O_NOCTTY, 0)
	if err != nil {
		return nil, err
	}
	defer in.Close()
	info, err := in.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, dataset.ErrNotFile
	}
	how = &p.Cloned
	err = t.create(temp, info.Mode().Perm(), func(out *os.File) (time.Time, error) {
		if unix.IoctlFileClone(int(out.Fd()), int(in.Fd())) != nil {
			how = &p.Copied
			if _, err := io.Copy(out, io.LimitReader(in, info.Size())); err != nil {
				return time.Time{}, err
			}
		}
		// If the file was written meanwhile, its new modification time reveals it later.
		info, err := in.Stat()
		if err != nil {
			return time.Time{}, err
		}
		return info.ModTime(), nil
	})
	return how, err
}

// create makes a file under a temporary name. After an error, the file does not exist. fill returns
// the file's modification time.
func (t *tree) create(temp string, mode fs.FileMode, fill func(out *os.File) (time.Time, error)) error {
	out, err := t.root.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return err
	}
	t.step()
	modTime, err := fill(out)
	if err = errors.Join(err, out.Close()); err == nil {
		t.step()
		// Set the time by name and after closing: some network file systems write the data, and
		// so change the time, when a file is closed.
		err = t.root.Chtimes(temp, time.Time{}, modTime)
	}
	if err != nil {
		_ = t.root.Remove(temp)
	}
	return err
}
