package convert

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"sync"

	"github.com/batchfs/batchfs/dataset"
	"github.com/batchfs/batchfs/internal/option"
	"github.com/batchfs/batchfs/internal/promptly"
)

// Write converts ds into the dataset out, a directory that must be missing or empty. The result
// appears whole or not at all: it grows in out.partial, which stays after an error or when ctx
// is done, so that a call with the same options continues it. ds remains the caller's. It must
// have been opened with Rescan, so that its index matches the files.
//
// When ctx is done, Write returns promptly even if the storage hangs; out.partial then stays
// locked until the storage responds or the process ends.
//
// A bad option is an [option.Error].
func Write(ctx context.Context, ds *dataset.Dataset, out string, o Options) (Report, error) {
	if err := o.validate(); err != nil {
		return Report{}, err
	}
	var stop func()
	o.Progress, stop = promptly.Progress(o.Progress)
	defer stop()
	return promptly.Do(ctx, func() (Report, error) {
		c := &conversion{ds: ds, o: o.filled(), names: newNames(ds, o), gray: make([]bool, ds.Len())}
		if err := c.write(ctx, out); err != nil {
			return c.report, fmt.Errorf("convert: %w", spaceError(err))
		}
		return c.report, nil
	}, nil)
}

// conversion is the state of one Write.
type conversion struct {
	ds    *dataset.Dataset
	o     Options
	names names
	stage *stage
	gray  []bool // samples whose raw copy is a PGM

	mu      sync.Mutex // guards the following while workers run, and calls of Progress
	done    int
	kinds   []kind           // a worker may use that of its own sample without mu
	reasons map[int32]string // why samples are unreadable
	report  Report
}

func (c *conversion) write(ctx context.Context, out string) (err error) {
	var finished *mark
	if c.stage, finished, err = findPlace(out, c.ds.Root(), c.o.Manifest != ""); err != nil {
		return err
	}
	c.stage.step = c.o.step
	c.report.Out, c.report.Staging = c.stage.out, c.stage.path
	if err := c.survey(ctx); err != nil {
		return err
	}
	if err := c.names.check(c.kinds); err != nil {
		return err
	}
	if finished != nil {
		return c.alreadyFinished(ctx, finished)
	}
	defer c.stage.close()
	if err := c.stage.open(); err != nil {
		return err
	}
	if err := c.prepare(ctx); err != nil {
		c.stage.discard()
		return err
	}
	if err := c.makeFiles(ctx); err != nil {
		return err
	}
	if c.names.manifest != "" {
		if err := c.writeManifest(); err != nil {
			return err
		}
	}
	if err := c.stage.finish(); err != nil {
		return err
	}
	c.summarize()
	return nil
}

// alreadyFinished handles an existing result: a run with the same settings has nothing to do.
func (c *conversion) alreadyFinished(ctx context.Context, finished *mark) error {
	m, err := c.mark(ctx, finished)
	if err != nil {
		return err
	}
	if err := finished.continues(m); err != nil {
		return fmt.Errorf("%s: %w: it %w", c.stage.out, ErrNotEmpty, err)
	}
	c.choose()
	c.report.Finished = true
	c.summarize()
	return nil
}

// prepare makes all decisions, announces them, and checks that they can be carried out.
func (c *conversion) prepare(ctx context.Context) error {
	m, err := c.mark(ctx, c.stage.begun)
	if err != nil {
		return err
	}
	if c.report.Resumed = c.stage.begun != nil; c.report.Resumed {
		if err := c.stage.begun.continues(m); err != nil {
			return fmt.Errorf("%s %w", c.stage.path, err)
		}
	}
	root, err := os.Stat(c.ds.Root())
	if err != nil {
		return err
	}
	if err := c.stage.begin(m, root.Mode().Perm()); err != nil {
		return err
	}
	c.o.step()
	c.choose()
	c.summarize()
	plan, err := c.plan()
	if c.o.Announce != nil && (err == nil || errors.Is(err, ErrSpace)) {
		c.o.Announce(plan)
	}
	// From here on the report counts what was actually done.
	plan.Linked, plan.Cloned, plan.Copied = 0, 0, 0
	c.report.Plan = plan
	return err
}

// mark determines the share of raw samples, which an earlier run may have recorded, and returns
// this run's marker.
func (c *conversion) mark(ctx context.Context, earlier *mark) (*mark, error) {
	var err error
	switch c.report.Ratio = c.o.Ratio; {
	case c.o.Auto != nil && earlier != nil:
		c.report.Ratio, err = strconv.ParseFloat(earlier.Settings[ratioSetting], 64)
	case c.o.Auto != nil:
		c.report.Ratio, err = c.o.Auto(ctx)
	}
	if r := c.report.Ratio; err == nil && !(r >= 0 && r <= 1) {
		err = &option.Error{Field: "raw ratio", Rule: "found to be a number from 0 to 1", Value: fmt.Sprint(r)}
	}
	return newMark(c.ds, c.o, c.report.Ratio, c.fingerprint()), err
}

// choose marks samples to be made raw and returns those that were not marked before.
func (c *conversion) choose() (added []int32) {
	for _, i := range choose(c.ds, c.kinds, c.o.Seed, c.report.Ratio) {
		if c.kinds[i] == encoded {
			c.kinds[i] = chosen
			added = append(added, i)
		}
	}
	return added
}

// summarize reports what the samples are, which changes as unreadable ones are found.
func (c *conversion) summarize() {
	r := &c.report
	r.Samples, r.AlreadyRaw, r.Raw, r.Unreadable = c.ds.Len(), 0, 0, nil
	for i, k := range c.kinds {
		switch k {
		case alreadyRaw:
			r.AlreadyRaw++
			r.Raw++
		case chosen:
			r.Raw++
		case unreadable:
			r.Unreadable = append(r.Unreadable, Unreadable{i, c.ds.Path(i), c.reasons[int32(i)]})
		}
	}
	if c.names.manifest != "" {
		r.Manifest = filepath.Join(r.Out, c.names.manifest)
	}
}
