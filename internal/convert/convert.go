package convert

import (
	"bufio"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"math"
	"path/filepath"
	"slices"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/batchfs/batchfs/decode"
	"github.com/batchfs/batchfs/decode/resample"
	"github.com/batchfs/batchfs/internal/dataset"
	"github.com/batchfs/batchfs/internal/fault"
	"github.com/batchfs/batchfs/internal/parallel"
	"github.com/batchfs/batchfs/internal/sample"
	"github.com/batchfs/batchfs/shard"
)

// Write converts ds into the dataset out, a directory that must be missing or empty. The result
// appears whole or not at all: it grows in out.partial, which stays after an error or when ctx is
// done, so that a call with the same options continues it. ds remains the caller's. It must have
// been opened with Rescan, so that its index matches the files.
//
// When ctx is done, Write returns promptly even if the storage hangs; out.partial then stays locked
// until the storage responds or the process ends.
//
// Impossible shares are an [option.Error].
func Write(ctx context.Context, ds *dataset.Dataset, out string, o Options) (Report, error) {
	var stop func()
	o.Progress, stop = parallel.Progress(o.Progress)
	defer stop()
	return parallel.Promptly(ctx, func() (Report, error) {
		n := ds.Len()
		c := &conversion{ds: ds, o: o.filled(), names: newNames(ds, o), states: make([]state, n)}
		c.first, c.end = o.Part.Span(n)
		c.report.RawFormat, c.report.Unreadable = o.Format.String(), []dataset.BadFile{}
		err := c.write(ctx, out)
		slices.SortFunc(c.report.Unreadable, func(a, b dataset.BadFile) int { return cmp.Compare(a.ID, b.ID) })
		if err != nil {
			err = fmt.Errorf("convert: %w", classified(err))
		}
		return c.report, err
	}, nil)
}

// conversion is the state of one Write.
type conversion struct {
	ds    *dataset.Dataset
	o     Options
	names names
	table table
	tree  *tree

	first, end int // the samples whose files this run makes

	mu     sync.Mutex // guards the fields below while workers run, and calls of Progress
	states []state    // a worker may use its own sample's state without mu
	done   int
	report Report
}

func (c *conversion) write(ctx context.Context, out string) (err error) {
	source := c.ds.Root
	if c.ds.Remote {
		source = ""
	}
	if c.tree, err = findTree(out, source, c.names.manifest != "" || !c.names.local); err != nil {
		return err
	}
	c.tree.step, c.tree.part = c.o.step, c.o.Part
	c.report.Out, c.report.Staging, c.report.Samples = c.tree.out, c.tree.path, c.ds.Len()
	if c.names.manifest != "" {
		c.report.Manifest = filepath.Join(c.tree.out, c.names.manifest)
		if !c.named() {
			c.report.Classes = filepath.Join(c.tree.out, classesName)
		}
		c.table.named = c.ds.Classes != nil && c.report.Classes == ""
	}
	c.table.ds, c.table.names, c.table.tree, c.table.report, c.table.open = c.ds, &c.names, c.tree, &c.report, c.o.Rows
	resized := c.o.Resize != resample.None && (c.o.Auto != nil || c.o.Shares.Raw > 0)
	if err := c.table.survey(ctx, resized); err != nil {
		return err
	}
	if err := c.survey(ctx); err != nil {
		return err
	}
	if err := c.names.check(c.states); err != nil {
		return err
	}
	if !c.tree.finished {
		defer c.tree.close()
		if err := c.tree.open(source); err != nil {
			return err
		}
	}
	err = c.tree.allParts(c.o.Merge)
	if err == nil {
		err = c.prepare(ctx)
	}
	if err != nil {
		c.tree.discard()
		return err
	}
	if c.report.Finished {
		return nil
	}
	if err := c.makeFiles(ctx); err != nil {
		return err
	}
	if c.o.Part.N > 0 {
		return c.tree.finishPart()
	}
	if err := c.clear(ctx); err != nil {
		return err
	}
	if err := c.writeManifest(ctx); err != nil {
		return err
	}
	return c.tree.finish()
}

// survey determines the state of all samples.
func (c *conversion) survey(ctx context.Context) error {
	return parallel.Each(ctx, c.o.Workers, c.ds.Len(), nil, func(_ context.Context, items iter.Seq[int]) error {
		for i := range items {
			f := sample.CostOf(c.ds, i)
			c.states[i] = state{from: f, to: f, turned: !c.o.IgnoreOrientation && c.table.isTurned(i)}
			if err := c.examine(i); fault.Of(err) == fault.File {
				c.spoil(i, err)
			} else if err != nil {
				return err
			}
		}
		return nil
	})
}

// examine finds out, without reading the sample, whether it can only be kept as it is. It looks at
// files whose identity the index does not know because a manifest described them.
func (c *conversion) examine(i int) error {
	if reason := c.ds.Unread(i); reason != "" {
		return &dataset.FileError{Path: c.ds.Path(i), Err: fmt.Errorf("cannot be read now: %s", reason)}
	}
	if reason := c.ds.Problem(i); reason != "" {
		return fault.New(fault.File, reason)
	}
	if !c.ds.Stat(i).Known() {
		if _, err := c.ds.Check(i); err != nil {
			return err
		}
	}
	h, w := c.ds.Size(i, c.o.IgnoreOrientation)
	if int64(h)*int64(w) > c.o.MaxPixels {
		return decode.ErrTooLarge
	}
	if n := c.o.FileBytes(h, w); c.o.Format == BMP && n > maxBMP {
		return fault.New(fault.File, fmt.Sprintf("%d bytes are more than a BMP can hold", n))
	}
	return nil
}

// prepare makes all decisions, announces them, and checks that they can be carried out.
func (c *conversion) prepare(ctx context.Context) error {
	m, err := c.mark(ctx)
	if err != nil {
		return err
	}
	c.choose()
	if c.report.Finished {
		return nil
	}
	if err := c.tree.begin(m); err != nil {
		return err
	}
	plan, err := c.plan()
	if c.o.Announce != nil && (err == nil || errors.Is(err, ErrSpace)) {
		c.o.Announce(plan)
	}
	// From here on the report counts what was actually done.
	plan.Linked, plan.Cloned, plan.Copied = 0, 0, 0
	c.report.Plan = plan
	return err
}

// plan determines the work and the space it takes.
func (c *conversion) plan() (Plan, error) {
	p := c.report.Plan
	var disk unix.Statfs_t
	if err := unix.Statfs(p.Staging, &disk); err != nil {
		return p, &fs.PathError{Op: "statfs", Path: p.Staging, Err: err}
	}
	how, err := c.tryKeeping(&p)
	if err != nil {
		return p, err
	}
	block, files := max(1, int64(disk.Frsize)), int64(0)
	need := func(bytes int64) {
		p.NeedBytes += (bytes + block - 1) / block * block
		files++
	}
	if !p.Resumed { // otherwise, they exist already
		for range c.directories() {
			need(1)
		}
	}
	for i := c.first; i < c.end; i++ {
		s, size := c.states[i], c.ds.Stat(i).Size
		switch {
		case s.becomes(shard.Raw):
			size = c.o.FileBytes(c.ds.Size(i, c.o.IgnoreOrientation))
			p.RawBytes += size
		case s.becomes(shard.Packed):
			size = LikelyPacked(c.ds, i)
			p.PackedBytes += size
		case how == &p.Linked:
			p.Linked++
			continue
		case how == &p.Cloned:
			p.Cloned++
			size = 0
		default:
			p.Copied++
			p.CopyBytes += size
		}
		if _, there := c.found(i); !there {
			need(size)
		}
	}
	p.FreeBytes = int64(disk.Bavail) * block
	if disk.Blocks == 0 { // the file system does not report it
		p.FreeBytes = math.MaxInt64
	}
	switch free := int64(disk.Ffree); {
	case disk.Files > 0 && files > free: // else inodes are created on demand
		err = fmt.Errorf("%w in %s: %d files are too many, %d fit", ErrSpace, p.Staging, files, free)
	case p.NeedBytes > p.FreeBytes:
		err = fmt.Errorf("%w in %s: %d bytes are needed, %d are free", ErrSpace, p.Staging, p.NeedBytes, p.FreeBytes)
	}
	return p, err
}

// tryKeeping finds out with one readable sample how files can be kept. If the dataset spans
// devices, files on others may be kept differently.
func (c *conversion) tryKeeping(p *Plan) (how *int, err error) {
	if !c.names.local {
		return &p.Copied, nil
	}
	for i, s := range c.states {
		if s.unreadable {
			continue
		}
		how, err := c.tree.keep(c.tree.temporary(i), c.names.source(i), p)
		if err == nil {
			return how, c.tree.root.Remove(c.tree.temporary(i))
		}
		if fault.Of(err) != fault.File {
			return nil, err
		}
	}
	return &p.Linked, nil
}

// mark determines the shares, unless an earlier run recorded them, and returns this run's marker,
// which must match the earlier one.
func (c *conversion) mark(ctx context.Context) (m *mark, err error) {
	r, earlier := &c.report, c.tree.earlier
	switch r.Shares = c.o.Shares; {
	case c.o.Auto != nil && earlier != nil:
		r.Shares, err = earlier.shares()
	case c.o.Auto != nil:
		r.Shares, err = c.o.Auto(ctx)
	}
	if err == nil {
		err = r.Shares.Validate()
	}
	if err != nil {
		return nil, err
	}
	r.Finished, r.Resumed = c.tree.finished, earlier != nil && !c.tree.finished
	m = newMark(c.ds, c.o, r.Shares, c.fingerprint())
	if earlier != nil {
		err = earlier.continues(m)
	}
	switch {
	case err != nil && r.Finished:
		err = fmt.Errorf("%s: %w: it %w", r.Out, ErrNotEmpty, err)
	case err != nil:
		err = fmt.Errorf("%s %w", r.Staging, err)
	}
	return m, err
}

// fingerprint covers everything that the index says about the dataset, its files' sizes and times,
// and what columns say.
func (c *conversion) fingerprint() string {
	h := sha256.New()
	w := bufio.NewWriterSize(h, 64<<10)
	io.WriteString(w, "batchfs convert 1\n"+c.ds.Digest+"\n")
	for i, s := range c.states {
		_ = binary.Write(w, binary.LittleEndian, c.ds.Stat(i)) // size and time
		_ = w.WriteByte(s.code())
	}
	io.WriteString(w, c.table.sum)
	w.Flush()
	return hex.EncodeToString(h.Sum(nil))
}

// choose decides what each sample becomes. If a chosen sample turns out to be unreadable, or to
// have no packed form, all others stay chosen, and the next one is added.
func (c *conversion) choose() {
	for _, f := range []shard.Cost{shard.Raw, shard.Packed} {
		share := c.report.Shares.Of(f)
		if share == 0 {
			continue
		}
		standings := make([]standing, len(c.states))
		for i := range c.states {
			standings[i] = c.states[i].standing(f, c.report.Shares)
		}
		for _, i := range choose(c.ds, standings, c.o.Seed, share) {
			c.states[i].to = f
		}
	}
	p := &c.report.Plan
	p.Raw, p.AlreadyRaw, p.Packed, p.AlreadyPacked, p.Turned = 0, 0, 0, 0, 0
	for _, s := range c.states {
		if s.turned && p.Shares.Raw > 0 {
			p.Turned++
		}
		already := 0
		if s.unchanged() {
			already = 1
		}
		switch {
		case s.unreadable:
		case s.to == shard.Raw:
			p.Raw, p.AlreadyRaw = p.Raw+1, p.AlreadyRaw+already
		case s.to == shard.Packed:
			p.Packed, p.AlreadyPacked = p.Packed+1, p.AlreadyPacked+already
		}
	}
}

// notPacked marks a sample that has no packed form.
func (c *conversion) notPacked(i int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := &c.states[i]
	s.unpackable, s.to = true, s.from
	c.report.Unpackable++
}

// spoil marks a sample as unreadable because of err. It is not raw, even if an earlier run could
// read it.
func (c *conversion) spoil(i int, err error) {
	err = dataset.Reason(err)
	if errno, ok := errors.AsType[unix.Errno](err); ok {
		err = errno // without the path, which precedes it in the output
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.states[i].unreadable = true
	c.states[i].to = c.states[i].from
	c.report.Unreadable = append(c.report.Unreadable, dataset.NewBadFile(c.ds.Path(i), i, err.Error()))
}
