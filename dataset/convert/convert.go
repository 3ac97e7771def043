package convert

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/batchfs/batchfs/dataset"
	"github.com/batchfs/batchfs/dataset/sample"
	"github.com/batchfs/batchfs/internal/promptly"
)

// Write converts ds into the dataset out, a directory that must be missing or empty. The result
// appears whole or not at all: it grows in out.partial, which stays after an error or when ctx
// is done, so that a call with the same options continues it. ds remains the caller's. It must
// have been opened with Rescan, so that its index matches the files.
//
// When ctx is done, Write returns promptly even if the storage hangs; out.partial then stays
// locked until the storage responds or the process ends.
func Write(ctx context.Context, ds *dataset.Dataset, out string, o Options) (Report, error) {
	if err := o.validate(); err != nil {
		return Report{}, err
	}
	var stop func()
	o.Progress, stop = promptly.Progress(o.Progress)
	defer stop()
	return promptly.Do(ctx, func() (Report, error) {
		c := &conversion{ds: ds, o: o.filled(), spoilt: map[int32]string{}}
		if err := c.write(ctx, out); err != nil {
			return c.report, fmt.Errorf("convert: %w", err)
		}
		return c.report, nil
	}, nil)
}

func (c *conversion) write(ctx context.Context, out string) error {
	p, finished, err := findPlace(out, c.ds.Root(), c.o.Manifest != "")
	if err != nil {
		return err
	}
	c.report.Out, c.report.Staging = p.out, p.staging
	if c.survey, err = newSurvey(ctx, c.ds, c.o); err != nil {
		return err
	}
	if finished != nil {
		return c.alreadyFinished(ctx, finished)
	}
	if c.stage, err = openStage(p); err != nil {
		return spaceError(err)
	}
	defer c.stage.close()
	if err := c.prepare(ctx); err != nil {
		c.stage.discard()
		return err
	}
	defer c.files.close()
	if err := c.run(ctx); err != nil {
		return err
	}
	return c.publish()
}

// prepare makes all decisions, announces them, and checks that they can be carried out.
func (c *conversion) prepare(ctx context.Context) error {
	begun := c.stage.begun
	m, err := c.mark(ctx, begun)
	if err != nil {
		return err
	}
	if c.report.Resumed = begun != nil; c.report.Resumed {
		if err := m.continues(begun, c.report.Staging); err != nil {
			return err
		}
	}
	root, err := os.Stat(c.ds.Root())
	if err != nil {
		return err
	}
	if err := c.stage.begin(m, root.Mode().Perm()); err != nil {
		return spaceError(err)
	}
	if c.files, err = newFiles(c.ds.Root(), c.stage, c.o.step); err != nil {
		return err
	}
	c.o.step()
	if err := c.decide(); err != nil {
		c.files.close()
		return err
	}
	return nil
}

// mark determines the share of raw samples, which an earlier run may have recorded, and returns
// this run's marker.
func (c *conversion) mark(ctx context.Context, earlier *mark) (*mark, error) {
	ratio := c.o.Ratio
	switch {
	case c.o.Auto != nil && earlier != nil:
		ratio = earlier.Settings.Ratio
	case c.o.Auto != nil:
		var err error
		if ratio, err = c.o.Auto(ctx); err != nil {
			return nil, err
		}
		if !(ratio >= 0 && ratio <= 1) {
			return nil, optionError("ratio", "found to be a number from 0 to 1", ratio)
		}
	}
	c.report.Ratio = ratio
	return newMark(c.ds, c.o, ratio, c.survey.fingerprint()), nil
}

// choices chooses the samples to convert and names all files.
func (c *conversion) choices() (err error) {
	kinds := c.survey.kinds
	c.chooser = newChooser(c.o.Seed, c.ds.Len(), c.ds.Label, c.ds.Path, kinds)
	c.wanted, c.exts = make([]bool, len(kinds)), make([]uint8, len(kinds))
	c.want(c.chooser.choose(c.report.Ratio, nil))
	c.tree, err = newTree(c.ds, c.o.Format, c.o.Manifest, kinds)
	return err
}

func (c *conversion) decide() error {
	if err := c.choices(); err != nil {
		return err
	}
	c.memory = sample.NewMemory(c.o.Memory, c.o.Workers)
	p, err := c.plan()
	if c.o.Announce != nil && (err == nil || errors.Is(err, ErrSpace)) {
		c.o.Announce(p)
	}
	if err != nil {
		return err
	}
	// From here on the report counts what was actually done.
	p.Linked, p.Cloned, p.Copied = 0, 0, 0
	c.report.Plan = p
	return nil
}

// publish makes the finished tree visible.
func (c *conversion) publish() error {
	if c.tree.manifest != "" {
		if err := c.writeManifest(); err != nil {
			return err
		}
		c.report.Manifest = filepath.Join(c.report.Out, c.tree.manifest)
	}
	if err := c.stage.finish(c.o.step); err != nil {
		return spaceError(err)
	}
	c.summarize()
	return nil
}

// summarize fills in what is known only at the end.
func (c *conversion) summarize() {
	for i, reason := range c.survey.reasons {
		c.unreadable(i, reason)
	}
	for i, reason := range c.spoilt {
		c.unreadable(i, reason)
	}
	slices.SortFunc(c.report.Unreadable, func(a, b Unreadable) int { return cmp.Compare(a.ID, b.ID) })
	c.report.Raw = c.report.AlreadyRaw
	for _, raw := range c.wanted {
		if raw {
			c.report.Raw++
		}
	}
}

func (c *conversion) unreadable(i int32, reason string) {
	c.report.Unreadable = append(c.report.Unreadable, Unreadable{int(i), c.ds.Path(int(i)), reason})
}

// alreadyFinished handles an existing result: a run with the same settings has nothing to do.
func (c *conversion) alreadyFinished(ctx context.Context, finished *mark) error {
	m, err := c.mark(ctx, finished)
	if err != nil {
		return err
	}
	if err := m.made(finished, c.report.Out); err != nil {
		return err
	}
	c.report.Finished = true
	if err := c.choices(); err != nil {
		return err
	}
	c.report.Samples, c.report.AlreadyRaw = c.ds.Len(), int(c.chooser.raw)
	if c.tree.manifest != "" {
		c.report.Manifest = filepath.Join(c.report.Out, c.tree.manifest)
	}
	c.summarize()
	return nil
}
