package dataset

import (
	"context"
	"errors"

	"github.com/batchfs/batchfs/internal/entries"
)

// ErrNoIndex means that there is no index file to keep entry points beside.
var ErrNoIndex = errors.New("no index is kept")

// OpenEntries opens the entry points that are stored beside the index; see [entries.Open]. The
// path and the number of samples of the options are set here. They are found by the samples' paths,
// which are not those of other samples, also in archives. The caller closes them.
func (d *Dataset) OpenEntries(o entries.Options) (*entries.Store, error) {
	if d.indexFile == "" {
		return nil, ErrNoIndex
	}
	o.Path, o.Samples = entriesPath(d.indexFile), d.Len()
	return entries.Open(o)
}

func entriesPath(indexFile string) string { return indexBase(indexFile) + ".entries" }

// renewEntries makes the stored entry points anew if that is worth it. A part of the dataset does
// not say which of its files are there. The error is that of the context.
func (f *factFiles) renewEntries(ctx context.Context, t *table) error {
	if f.made == "" || f.part.N > 0 {
		return nil
	}
	err := entries.Renew(ctx, entriesPath(f.made), t.rows(), func(yield func(path string) bool) {
		for i := 0; i < t.rows() && yield(t.path(i)); i++ {
		}
	})
	if err != nil && ctx.Err() == nil {
		f.log.Debug("stored entry points are as they were", "reason", err)
	}
	return ctx.Err()
}
