package convert

import (
	"context"
	"sync"

	"github.com/batchfs/batchfs/dataset"
	"github.com/batchfs/batchfs/dataset/sample"
)

// conversion is the state of one Write.
type conversion struct {
	ds      *dataset.Dataset
	o       Options
	stage   *stage
	files   *files
	survey  *survey
	tree    *tree
	chooser *chooser

	wanted []bool  // samples to make raw
	exts   []uint8 // index of the extension that a raw sample got
	memory *sample.Memory

	mu     sync.Mutex // guards the following fields and calls of Progress
	done   int
	spoilt map[int32]string // samples that turned out to be unreadable, and why
	report Report
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

// directories returns the directories that must exist even if empty, because they number the
// classes.
func (c *conversion) directories() []string {
	if c.tree.manifest != "" {
		return nil
	}
	return c.ds.Classes()
}

// want marks samples to be made raw and returns those that were not marked yet.
func (c *conversion) want(samples []int32) (added []int32) {
	for _, i := range samples {
		if !c.wanted[i] {
			c.wanted[i] = true
			added = append(added, i)
		}
	}
	return added
}

// replaceSpoilt chooses replacements for samples that could not be read.
func (c *conversion) replaceSpoilt() []int32 {
	spoilt := make(map[int32]bool, len(c.spoilt))
	for i := range c.spoilt {
		spoilt[i] = true
		c.wanted[i] = false
	}
	return c.want(c.chooser.choose(c.report.Ratio, spoilt))
}

// pass processes n samples.
func (c *conversion) pass(ctx context.Context, n int, sample func(k int) int) error {
	return each(ctx, c.o.Workers, n, func(number int) (func(int) error, func()) {
		w := &worker{c, number, NewMaker(c.ds, c.o, c.memory)}
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
	// A replacement is processed a second time, so done can exceed the number of samples.
	if c.o.Progress != nil && c.done <= c.ds.Len() {
		c.o.Progress(int64(c.done), int64(c.ds.Len()))
	}
}

// count increments a counter of the report.
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

// bad says whether sample i is known to be unreadable.
func (c *conversion) bad(i int) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.survey.kinds[i] == unreadable || c.spoilt[int32(i)] != ""
}

func (c *conversion) setExt(i int, ext string) {
	for k, e := range c.tree.exts {
		if e == ext {
			c.exts[i] = uint8(k)
		}
	}
}

// name is sample i's path in the result.
func (c *conversion) name(i int) string {
	if c.wanted[i] {
		return c.tree.raw(i, c.tree.exts[c.exts[i]])
	}
	return c.tree.kept(i)
}
