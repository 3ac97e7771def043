package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/batchfs/batchfs/dataset"
	"github.com/batchfs/batchfs/engine"
)

// openDataset opens a dataset through its index and scans what the index lacks, with
// progress on a terminal.
func (c *console) openDataset(ctx context.Context, path string, o datasetOptions) (*dataset.Dataset, error) {
	bar := c.progress("indexing", "images")
	defer bar.close()
	ds, err := interruptibly(ctx, func() (*dataset.Dataset, error) {
		return dataset.Open(ctx, path, dataset.Options{
			CacheDir: c.env.cacheDir, Workers: o.workers, AllowOutside: o.allowOutside, Rescan: o.rescan,
			Storage: o.Storage, Prober: engine.Probe, Progress: bar.report, Logger: o.log,
		})
	})
	if err != nil {
		return nil, datasetError(path, err)
	}
	return ds, nil
}

// datasetError adds a hint to an error from opening a dataset.
func datasetError(path string, err error) error {
	switch {
	case errors.Is(err, context.Canceled), errors.Is(err, errInterrupted):
		return fmt.Errorf("interrupted while indexing %s", path)
	case errors.Is(err, dataset.ErrNotExist):
		return hint(err, "%s", lookNear(path))
	case errors.Is(err, dataset.ErrEmpty), errors.Is(err, dataset.ErrKind):
		return hint(err, "a dataset is a folder of images, a folder of such folders, or a manifest; to try batchfs: batchfs gen --out photos --images 100")
	case errors.Is(err, dataset.ErrOutside):
		return hint(err, "if that is intended: --allow-outside")
	case errors.Is(err, dataset.ErrManifest):
		return hint(err, "a manifest has a column path and may have label, height, width and format")
	case errors.Is(err, dataset.ErrAway):
		return hint(err, "see what is mounted there: findmnt -T %s", shellWord(path))
	case errors.Is(err, unix.EMFILE), errors.Is(err, unix.ENFILE):
		return hint(err, "allow more open files: ulimit -n 65536")
	case errors.Is(err, fs.ErrPermission):
		var denied *fs.PathError // often for a directory below path
		if errors.As(err, &denied) {
			path = denied.Path
		}
		return hint(err, "ls -ld %s", shellWord(path))
	}
	return err
}

// warnIgnored reports how many files of which kinds in a dataset's directories are not
// samples, so that an unsupported format, or images beside class directories, are noticed.
func warnIgnored(ds *dataset.Dataset, tell func(message, hint string)) {
	r := ds.Report()
	if r.Ignored > 0 {
		tell(fmt.Sprintf("%s in %s: %s", count(r.Ignored, "ignored file"), shown(ds.Root()), r.IgnoredKinds()), "")
	}
}

// lookNear suggests where to look for a missing dataset.
func lookNear(path string) string {
	dir := filepath.Dir(strings.TrimRight(path, "/"))
	if _, err := os.Stat(dir); err != nil {
		return "to try batchfs: batchfs gen --out photos --images 100"
	}
	return "ls " + shellWord(dir)
}
