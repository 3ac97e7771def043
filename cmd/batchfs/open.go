package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/batchfs/batchfs/dataset"
	"github.com/batchfs/batchfs/engine"
)

// datasetOptions says how to open a dataset.
type datasetOptions struct {
	workers      int
	allowOutside bool
	storage      dataset.Storage
	rescan       bool // check every file again, not only those that seem to have changed
	log          *slog.Logger
}

// datasetOptions reads the flags of a dataset.
func (v *flagValues) datasetOptions(workers int, log *slog.Logger) datasetOptions {
	return datasetOptions{
		workers: workers, allowOutside: v.on("allow-outside"), log: log,
		storage: dataset.Storage{
			Direct:       choice(v, "io", word("direct"), word("buffered")) == "direct",
			MaxBandwidth: v.bytesOr("max-read-bandwidth", 0),
		},
	}
}

// openDataset opens a dataset through its index and scans what the index lacks, with
// progress on a terminal.
func (c *console) openDataset(ctx context.Context, path string, o datasetOptions) (*dataset.Dataset, error) {
	bar := c.progress("indexing", "images")
	defer bar.close()
	ds, err := interruptibly(ctx, func() (*dataset.Dataset, error) {
		return dataset.Open(ctx, path, dataset.Options{
			CacheDir: c.env.cacheDir, Workers: o.workers, AllowOutside: o.allowOutside, Rescan: o.rescan,
			Storage: o.storage, Prober: engine.Probe, Progress: bar.report, Logger: o.log,
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
		return hint(err, "a dataset is a folder of images, a folder of such folders, or a manifest; to make one to try: batchfs gen --out photos --images 100")
	case errors.Is(err, dataset.ErrOutside):
		return hint(err, "where that is meant: --allow-outside")
	case errors.Is(err, dataset.ErrManifest):
		return hint(err, "a manifest has the columns path and, if you like, label, height, width, format")
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

// sayIgnored reports the number and kinds of files in a dataset's directories that are not
// samples, so that an unsupported format, or images beside class directories, do not go
// unnoticed.
func sayIgnored(ds *dataset.Dataset, tell func(message, hint string)) {
	r := ds.Report()
	if r.Ignored > 0 {
		tell(fmt.Sprintf("%s in %s that are no samples: %s", count(r.Ignored, "ignored file"), shown(ds.Root()), r.IgnoredKinds()), "")
	}
}

// lookNear suggests where to look for a missing dataset.
func lookNear(path string) string {
	dir := filepath.Dir(strings.TrimRight(path, "/"))
	if _, err := os.Stat(dir); err != nil {
		return "to make a dataset to try: batchfs gen --out photos --images 100"
	}
	return "ls " + shellWord(dir)
}
