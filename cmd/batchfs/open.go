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
	"github.com/batchfs/batchfs/internal/promptly"
)

// openDataset opens a dataset through its index and scans what the index lacks, with
// progress on a terminal.
func (c *console) openDataset(ctx context.Context, path string, o dataset.Options) (*dataset.Dataset, error) {
	bar := c.progress("indexing", "images")
	defer bar.close()
	o.CacheDir, o.Prober, o.Progress = c.env.cacheDir, engine.Probe, bar.report
	ds, err := promptly.Do(ctx, func() (*dataset.Dataset, error) { return dataset.Open(ctx, path, o) }, nil)
	if err != nil {
		return nil, datasetError(path, err)
	}
	return ds, nil
}

// datasetError adds a hint to an error from opening a dataset.
func datasetError(path string, err error) error {
	if errors.Is(err, context.Canceled) {
		return fmt.Errorf("%w while indexing %s", errInterrupted, path)
	}
	denied := path
	if file := (*fs.PathError)(nil); errors.As(err, &file) { // often a directory below path
		denied = file.Path
	}
	const try = "a dataset is a folder of images, a folder of such folders, or a manifest; to try batchfs: batchfs gen --out photos --images 100"
	return advise(err,
		advice{dataset.ErrNotExist, lookNear(path)},
		advice{dataset.ErrEmpty, try},
		advice{dataset.ErrKind, try},
		advice{dataset.ErrOutside, "if that is intended: --allow-outside"},
		advice{dataset.ErrManifest, "a manifest has a column path and may have label, height, width and format"},
		advice{dataset.ErrAway, "see what is mounted there: findmnt -T " + shellWord(path)},
		advice{unix.EMFILE, "allow more open files: ulimit -n 65536"},
		advice{unix.ENFILE, "allow more open files: ulimit -n 65536"},
		advice{fs.ErrPermission, "ls -ld " + shellWord(denied)})
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
