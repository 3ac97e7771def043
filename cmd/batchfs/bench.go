package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"
	"golang.org/x/sys/unix"

	"github.com/batchfs/batchfs/internal/annotation"
	"github.com/batchfs/batchfs/internal/dataset"
	"github.com/batchfs/batchfs/internal/profile"
)

func benchCommand(c *console) *cli.Command {
	return command("bench DATASET", func(f *flagSet) runner {
		var source dataset.Options
		var b profile.Comparison
		f.check(func() error { return c.remoteReaders(f, &b.Engine, &source) })
		engineFlags(c, f, &b.Engine)
		readPathFlag(f, new(string))
		datasetFlags(f, &source)
		f.group = ""
		f.add("rounds", "3", "measure everything `N` times", number(&b.Rounds, 1, 1000))
		f.add("batches", "0", "read only the first `N` batches of each shard; 0: the whole epoch", number(&b.Batches, 0, 1<<30))
		jsonFlag(c, f, "print one JSON object")
		return c.withDataset(f, &source, &annotation.Options{}, func(ctx context.Context, a *annotation.Dataset) (_ printable, err error) {
			b.Dataset, b.Path = a.Images, f.args[0]
			b.Flags = slices.DeleteFunc(f.spelled(), func(word string) bool { // those of this command alone
				name, _, _ := strings.Cut(strings.TrimLeft(word, "-"), "=")
				return group(find(f.flags, name)) == ""
			})
			if b.Program, err = os.Executable(); err != nil {
				return nil, err
			}
			bar := c.progress()
			b.Progress = bar.reporter("measuring", "rounds")
			report, err := b.Run(ctx)
			bar.close()
			return benchReport(report), c.benchError(ctx, b.Path, err)
		})
	})
}

// benchError says why a benchmark failed.
func (c *console) benchError(ctx context.Context, path string, err error) error {
	ended, early := errors.AsType[*exec.ExitError](err)
	bad, isBad := errors.AsType[*dataset.FileError](err)
	switch {
	case err != nil && ctx.Err() != nil: // the error is a consequence of that
		return ctx.Err()
	case early && ended.Stderr != nil: // the daemon said why
		_, _ = c.err.Write(ended.Stderr)
		return endOf(fmt.Errorf("the daemon ended before its mount was live: %w", ended))
	case isBad:
		err = fmt.Errorf("cannot read %s: %w", displayName(bad.Path), bad.Err)
	case !errors.Is(err, unix.EIO): // which a batch with a file that the ceiling did not decode is
		return err
	}
	return hint(err, "to list all files that cannot be read: batchfs verify %s", shellWord(path))
}

// benchReport is the JSON output of bench.
type benchReport map[string]any

func (r benchReport) print(out io.Writer) {
	t := newTable(out)
	t.row("decoding alone, all CPUs", "%.0f images/s\tthe ceiling: %s", r["ceiling_images_per_second"], r["decoder"])
	t.row("one epoch, mapped", "%.0f images/s\t%.2f of the ceiling", r["mapped_images_per_second"], r["mapped_ratio"])
	t.row("one epoch, by read", "%.0f images/s\t%.2f of the ceiling", r["read_images_per_second"], r["read_ratio"])
	t.row("first batch after the mount", "%.3f s\t%.2f of decoding it alone", r["first_batch_seconds"], r["first_batch_ratio"])
	for _, how := range []struct{ name, key string }{{"mapped", "finished_mapped_"}, {"by read", "finished_read_"}} {
		if bytes, ok := r[how.key+"bytes_per_second"].(float64); ok { // not for an empty batch
			t.row("a finished batch, "+how.name, "%.1f GB/s\t%.2f of a plain file in memory", bytes/1e9, r[how.key+"ratio"])
		}
	}
	t.row("read path", "%s\t", r["read_path"])
	if r["read_path"] == "passthrough" {
		t.row("reads that reached the daemon", "%.0f\t", r["daemon_reads"])
	}
	t.Flush()
}
