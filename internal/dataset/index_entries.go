package dataset

import (
	"context"
	"errors"
	"fmt"

	"github.com/batchfs/batchfs/internal/entries"
)

// ErrNoIndex means that there is no index file to keep entry points beside.
var ErrNoIndex = errors.New("no index is kept")

// noIndex is ErrNoIndex, with the reason if there was a problem.
func (d *Dataset) noIndex() error {
	if d.Report.IndexProblem == "" {
		return ErrNoIndex
	}
	return fmt.Errorf("%w: %s", ErrNoIndex, d.Report.IndexProblem)
}

// OpenEntries opens the entry points stored beside the index; see [entries.Open]. It sets the path
// and the number of samples in the options. Entry points are found by the samples' paths, which are
// unique even in archives. The caller closes them.
func (d *Dataset) OpenEntries(o entries.Options) (*entries.Store, error) {
	if d.indexFile == "" {
		return nil, d.noIndex()
	}
	o.Path, o.Samples = entriesPath(d.indexFile), d.Len()
	return entries.Open(o)
}

func entriesPath(indexFile string) string { return indexBase(indexFile) + ".entries" }

// renewEntries rewrites the stored entry points if that is worthwhile. A part does not, since it
// does not know all files of the dataset. It fails only with the context's error.
func (f *factFiles) renewEntries(ctx context.Context, t *table) error {
	if f.target == "" || f.part.N > 0 {
		return nil
	}
	err := entries.Renew(ctx, entriesPath(f.target), t.rows(), func(yield func(path string) bool) {
		for i := 0; i < t.rows() && yield(t.path(i)); i++ {
		}
	})
	if err != nil && ctx.Err() == nil {
		f.log.Debug("stored entry points are as they were", "reason", err)
	}
	return ctx.Err()
}
