package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"

	"github.com/dustin/go-humanize/english"
	"github.com/urfave/cli/v2"

	"github.com/batchfs/batchfs/dataset"
	"github.com/batchfs/batchfs/internal/annotation"
	"github.com/batchfs/batchfs/internal/sample"
)

func verifyCommand(c *console) *cli.Command {
	return command("verify DATASET", func(f *flagSet) runner {
		source := dataset.Options{Rescan: true, AsClasses: true} // labels do not matter here
		var o sample.Options
		var part dataset.Share
		var merge bool
		datasetFlags(f, &source)
		workerFlag(c, f, &source.Workers)
		memoryFlag(c, f, &o.Memory, "decode only as much at once as fits into `SIZE`, such as 8GiB")
		decodeFlags(f, &o.Decoding.MaxPixels, &o.Decoding.IgnoreOrientation)
		partFlags(f, &part, &merge)
		var targets targetRequest
		annotationFlags(f, &targets.find, &source)
		jsonFlag(c, f, "print one JSON object")
		f.check(func() error {
			source.Rescan = part.N == 0 && !merge // else all parts would look at every file
			remoteWorkers(f, f.args[0], &source.Workers)
			o.Workers, o.Memory = source.Workers, c.memoryLimit(o.Memory)
			if targets.find.Kinds != (annotation.Kinds{}) && (part.N > 0 || merge) {
				return usage("--targets cannot be given with --part or --merge: annotations are verified as a whole")
			}
			return nil
		})
		return c.withDataset(f, &source, &targets.find, func(ctx context.Context, a *annotated) (printable, error) {
			v, err := verifyResult{storage: cmp.Or(a.images.Root, a.images.Name)}, error(nil)
			switch {
			case targets.find.Kinds != (annotation.Kinds{}):
				err = targets.verify(ctx, c, a, o, &v)
			case merge:
				v.Verdict, err = sample.JoinVerdicts(a.images)
			default:
				v.Verdict, err = c.verify(ctx, a.images, part, o)
			}
			return v, advise(err, advice{dataset.ErrNoIndex, "say where it can be kept: --index-at DIRECTORY"})
		})
	})
}

// verify verifies with progress on a terminal.
func (c *console) verify(ctx context.Context, ds *dataset.Dataset, part dataset.Share, o sample.Options) (sample.Verdict, error) {
	bar := c.progress("verifying", "images")
	defer bar.close()
	var done, total int64
	o.Progress = func(d, n int64) {
		done, total = d, n
		bar.report(d, n)
	}
	v, err := sample.Verify(ctx, ds, part, o)
	if err != nil && ctx.Err() != nil {
		err = fmt.Errorf("%w after %d of %s", errInterrupted, done, count(total, "image"))
	}
	return v, err
}

// verifyResult is the output of verify.
type verifyResult struct {
	sample.Verdict
	Masks   int    `json:"masks,omitempty"` // files of such
	Arrays  int    `json:"arrays,omitempty"`
	storage string // of the dataset
}

func (v verifyResult) print(out io.Writer) {
	printBad(out, slices.Concat(v.Bad, v.Unread))
	unread := ""
	if n := len(v.Unread); n > 0 {
		unread = fmt.Sprintf(", %d not read", n)
	}
	files := []string{count(v.Samples, "image")}
	if v.Masks > 0 {
		files = append(files, count(v.Masks, "mask"))
	}
	if v.Arrays > 0 {
		files = append(files, count(v.Arrays, "array"))
	}
	fmt.Fprintf(out, "%s, %d bad%s%s\n", english.WordSeries(files, "and"), len(v.Bad), unread, unended(v.Unended))
}

// verdict is the error that ends the command if not all files are good.
func (v verifyResult) verdict() error {
	remedy := "check that the storage is there, and try again: ls " + shellWord(v.storage)
	if v.NoMemory {
		remedy = "allow more: --memory-limit SIZE"
	}
	switch {
	case len(v.Unread) > 0:
		return hint(fmt.Errorf("%s could not be read, and may be good or bad", count(len(v.Unread), "image")), "%s", remedy)
	case len(v.Bad) > 0:
		return said(statusFailed)
	}
	return nil
}
