package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/urfave/cli/v2"

	"github.com/batchfs/batchfs/dataset"
	"github.com/batchfs/batchfs/decode"
)

func verifyCommand(c *console) *cli.Command {
	return command(cli.Command{
		Name:      "verify",
		Usage:     "decode every image and list the bad ones",
		ArgsUsage: "DATASET",
		Description: "Decodes everything, on all CPUs, and lists each file that cannot be read, with the reason. Exit status 1 if\n" +
			"there is any.",
		Flags: join(datasetFlags(), []cli.Flag{workersFlag(), maxPixelsFlag(), orientationFlag(), jsonFlag("print one JSON object")}),
		Action: func(ctx *cli.Context) error {
			v := &flagValues{flags: ctx}
			args := v.arguments("DATASET")
			o := v.datasetOptions(v.workers(c.machine), discardLog())
			o.rescan = true
			pixels := decode.Options{IgnoreOrientation: v.on("ignore-orientation"), MaxPixels: v.maxPixels()}
			if v.err != nil {
				return v.err
			}
			return c.verify(ctx.Context, args[0], o, pixels, v.on("json"))
		},
	}, "batchfs verify photos/")
}

// verifyReport is what verify prints as JSON.
type verifyReport struct {
	Samples int       `json:"samples"`
	Bad     []badFile `json:"bad"`
}

func (c *console) verify(ctx context.Context, path string, o datasetOptions, pixels decode.Options, asJSON bool) error {
	ds, err := c.openDataset(ctx, path, o)
	if err != nil {
		return err
	}
	defer ds.Close()
	bad, err := c.decodeAll(ctx, ds, o.workers, pixels)
	if err != nil {
		return err
	}
	if err := show(c.out, verifyReport{ds.Len(), bad}, asJSON); err != nil {
		return err
	}
	if len(bad) > 0 {
		return &saidError{statusFailed}
	}
	return nil
}

func (r verifyReport) print(out io.Writer) error {
	if err := printBad(out, r.Bad); err != nil {
		return err
	}
	_, err := fmt.Fprintf(out, "%s, %d bad\n", count(r.Samples, "image"), len(r.Bad))
	return err
}

// printBad lists files that cannot be read, one a line.
func printBad(out io.Writer, bad []badFile) error {
	for _, b := range bad {
		if _, err := fmt.Fprintf(out, "%s: %s\n", shown(b.Path), b.Reason); err != nil {
			return err
		}
	}
	return nil
}

// decodeAll decodes every sample once and returns the bad ones in order.
func (c *console) decodeAll(ctx context.Context, ds *dataset.Dataset, workers int, o decode.Options) ([]badFile, error) {
	bar := c.progress("verifying", "images")
	defer bar.close()
	var next, done atomic.Int64
	var mu sync.Mutex
	bad := []badFile{}
	var wait sync.WaitGroup
	for range workers {
		wait.Go(func() {
			p := newPixelReader(ds, o)
			defer p.close()
			for ctx.Err() == nil {
				i := int(next.Add(1) - 1)
				if i >= ds.Len() {
					return
				}
				if err := p.read(i); err != nil {
					mu.Lock()
					bad = append(bad, newBadFile(ds.Path(i), i, reasonOf(err)))
					mu.Unlock()
				}
				bar.report(done.Add(1), int64(ds.Len()))
			}
		})
	}
	wait.Wait()
	slices.SortFunc(bad, func(a, b badFile) int { return cmp.Compare(a.ID, b.ID) })
	if ctx.Err() != nil {
		return nil, fmt.Errorf("interrupted after %d of %s", done.Load(), count(ds.Len(), "image"))
	}
	return bad, nil
}

// reasonOf is an error without the path, which is printed before it.
func reasonOf(err error) string { return oneLine(dataset.Reason(err).Error()) }
