package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"

	"github.com/dustin/go-humanize/english"
	"github.com/urfave/cli/v2"

	"github.com/batchfs/batchfs/internal/annotation"
	"github.com/batchfs/batchfs/internal/dataset"
)

func verifyCommand(c *console) *cli.Command {
	return command("verify DATASET", func(f *flagSet) runner {
		source := dataset.Options{Rescan: true, AsClasses: true} // labels do not matter here
		var w annotation.Work
		var part dataset.Share
		var merge bool
		datasetFlags(f, &source)
		workerFlag(c, f, &source.Workers)
		memoryFlag(c, f, &w.Memory, "decode only as much at once as fits into `SIZE`, such as 8GiB")
		decodeFlags(f, &w.Decoding.MaxPixels, &w.Decoding.IgnoreOrientation)
		partFlags(f, &part, &merge)
		var find annotation.Options
		annotationFlags(f, &find, &source)
		jsonFlag(c, f, "print one JSON object")
		f.check(func() error {
			source.Rescan = part.N == 0 && !merge // otherwise each part would look at every file
			remoteWorkers(f, f.args[0], remoteRequests, &source.Workers)
			w.Workers, w.Memory = source.Workers, c.memoryLimit(w.Memory)
			if find.Kinds != (annotation.Kinds{}) && (part.N > 0 || merge) {
				return usage("--targets cannot be given with --part or --merge: annotations are verified as a whole")
			}
			return nil
		})
		return c.withDataset(f, &source, &find, func(ctx context.Context, a *annotation.Dataset) (printable, error) {
			v, err := verifyResult{storage: cmp.Or(a.Images.Root, a.Images.Name)}, error(nil)
			if merge {
				v.Verdict, err = a.JoinVerdicts()
			} else {
				bar := c.progress()
				w.Progress = func(kind string) func(done, total int64) { return bar.reporter("verifying", kind+"s") }
				v.Verdict, err = a.Verify(ctx, part, w)
				bar.close()
			}
			return v, advise(err, noArray, indexElsewhere)
		})
	})
}

// verifyResult is the output of verify.
type verifyResult struct {
	annotation.Verdict
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
		return exitSilently(statusFailed)
	}
	return nil
}
