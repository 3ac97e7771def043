package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/urfave/cli/v2"

	"github.com/batchfs/batchfs/dataset"
	"github.com/batchfs/batchfs/decode"
	"github.com/batchfs/batchfs/internal/fault"
	"github.com/batchfs/batchfs/internal/parallel"
	"github.com/batchfs/batchfs/internal/promptly"
	"github.com/batchfs/batchfs/internal/sample"
)

func verifyCommand(c *console) *cli.Command {
	return command("verify DATASET", func(f *flagSet) runner {
		o := dataset.Options{Rescan: true, AsClasses: true} // labels do not matter here
		var v verification
		var limit int64
		var merge bool
		datasetFlags(f, &o)
		workerFlag(c, f, &o.Workers)
		memoryFlag(c, f, &limit, "decode only as much at once as fits into `SIZE`, such as 8GiB")
		decodeFlags(f, &v.pixels.MaxPixels, &v.pixels.IgnoreOrientation)
		partFlags(f, &v.part, &merge)
		jsonFlag(c, f, "print one JSON object")
		f.check(func() error {
			o.Rescan = v.part.N == 0 && !merge // else all parts would look at every file
			remoteWorkers(f, f.args[0], &o.Workers)
			return checkParts(f)
		})
		return c.withDataset(f, &o, func(ctx context.Context, ds *dataset.Dataset) (printable, error) {
			v.ds, v.memory = ds, sample.NewMemory(c.memoryLimit(limit), o.Workers)
			find := func() error { return v.run(ctx, c, o.Workers) }
			if merge {
				find = v.join
			}
			if err := find(); err != nil {
				return nil, advise(err, advice{dataset.ErrNoIndex, "say where it can be kept: --index-at DIRECTORY"})
			}
			v.Unended = ds.Report().Unended
			return &v, nil
		})
	})
}

// verifyReport is the JSON output of verify.
type verifyReport struct {
	Samples int       `json:"samples"`
	Bad     []badFile `json:"bad"`
	Unended []string  `json:"unended,omitempty"` // archives that may have been cut off between two members
	Unread  []badFile `json:"unread"`            // files that the machine could not read; they may be good
}

func (r verifyReport) print(out io.Writer) {
	printBad(out, slices.Concat(r.Bad, r.Unread))
	unread := ""
	if n := len(r.Unread); n > 0 {
		unread = fmt.Sprintf(", %d not read", n)
	}
	fmt.Fprintf(out, "%s, %d bad%s%s\n", count(r.Samples, "image"), len(r.Bad), unread, unended(r.Unended))
}

// verification decodes every sample of a dataset once.
type verification struct {
	ds     *dataset.Dataset
	part   dataset.Share
	first  int // sample of the part
	pixels decode.Options
	memory *sample.Memory

	done atomic.Int64
	mu   sync.Mutex // guards the following
	verifyReport
	noMemory bool // for some sample
}

// run returns shortly after ctx ends.
func (v *verification) run(ctx context.Context, c *console, workers int) error {
	first, end := v.part.Span(v.ds.Len())
	v.first, v.verifyReport = first, verifyReport{Samples: end - first, Bad: []badFile{}, Unread: []badFile{}}
	bar := c.progress("verifying", "images")
	defer bar.close()
	report, stop := promptly.Progress(bar.report)
	defer stop()
	_, err := promptly.Do(ctx, func() (struct{}, error) {
		return struct{}{}, parallel.Each(ctx, workers, v.Samples, func(done, total int64) { v.done.Store(done); report(done, total) }, v.work)
	}, nil)
	if err != nil {
		return fmt.Errorf("%w after %d of %s", errInterrupted, v.done.Load(), count(v.Samples, "image"))
	}
	for _, list := range [][]badFile{v.Bad, v.Unread} {
		slices.SortFunc(list, func(a, b badFile) int { return a.ID - b.ID })
	}
	if v.part.N == 0 {
		return nil
	}
	return v.ds.KeepPart(v.part, "verify", v.verifyReport)
}

// join reads the reports of all parts.
func (v *verification) join() error {
	v.verifyReport = verifyReport{Bad: []badFile{}, Unread: []badFile{}}
	return v.ds.EachPart("verify", func(found []byte) error {
		var r verifyReport
		err := json.Unmarshal(found, &r)
		v.Samples, v.Bad, v.Unread = v.Samples+r.Samples, append(v.Bad, r.Bad...), append(v.Unread, r.Unread...)
		return err
	})
}

func (v *verification) work(ctx context.Context, items iter.Seq[int]) error {
	r := sample.NewReader(v.ds, v.pixels, v.memory)
	defer r.Close()
	for i := range items {
		i += v.first
		img, err := r.Read(ctx, i, 0)
		if err == nil {
			err = r.Decode(img)
		}
		r.Done()
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			v.note(i, err)
		}
	}
	return nil
}

// note records the error of sample i.
func (v *verification) note(i int, err error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	b := newBadFile(v.ds.Path(i), i, reasonOf(err))
	if fault.Of(err) == fault.File {
		v.Bad = append(v.Bad, b)
		return
	}
	v.Unread = append(v.Unread, b)
	v.noMemory = v.noMemory || errors.Is(err, sample.ErrMemory) || errors.Is(err, decode.ErrMemory)
}

// verdict is the error that ends the command if not all files are good.
func (v *verification) verdict() error {
	remedy := "check that the storage is there, and try again: ls " + shellWord(cmp.Or(v.ds.Root(), v.ds.Name()))
	if v.noMemory {
		remedy = "allow more: --memory-limit SIZE"
	}
	switch {
	case len(v.Unread) > 0:
		return hint(fmt.Errorf("%s could not be read; whether they are good is unknown", count(len(v.Unread), "image")), "%s", remedy)
	case len(v.Bad) > 0:
		return said(statusFailed)
	}
	return nil
}

// reasonOf is an error without its path, which is printed before it.
func reasonOf(err error) string { return oneLine(dataset.Reason(err).Error()) }
