package annotation

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/batchfs/batchfs/decode"
	"github.com/batchfs/batchfs/internal/dataset"
	"github.com/batchfs/batchfs/internal/entries"
	"github.com/batchfs/batchfs/internal/sample"
)

// ErrUnstored means that there was no room for all entry points. Those already stored stay.
var ErrUnstored = errors.New("not all entry points could be stored")

// An EntryReport says which JPEGs of a dataset have entry points.
type EntryReport struct {
	Have  int   `json:"have"`
	None  int   `json:"none"`  // cannot have any: too small, or not baseline
	Other int   `json:"other"` // could not be read, or not decoded by the decoder that makes entry points
	Bytes int64 `json:"bytes"` // of the file that holds them
}

// MakeEntries makes the entry points of the JPEGs that are not known. It returns ctx's error
// shortly after ctx ends, even if the storage hangs; what was made by then stays.
func (d *Dataset) MakeEntries(ctx context.Context, rule decode.EntryRule, w Work) (EntryReport, error) {
	ds := d.Images
	store, err := ds.OpenEntries(entries.Options{Rule: int32(rule), Strict: true, Wait: true})
	if err == nil && !store.Writes() {
		err = fmt.Errorf("%s cannot be written", ds.IndexPath)
		store.Close()
	}
	if err != nil {
		return EntryReport{}, fmt.Errorf("entry points cannot be stored: %w", err)
	}
	var mu sync.Mutex
	var report EntryReport
	err = w.each(ctx, ds, "image", 0, ds.Len(), func(r *sample.Reader) visit {
		e := sample.NewEntries(ds, store, false)
		return func(ctx context.Context, i int) error {
			if !store.Writes() {
				return ErrUnstored // closing the store returns why
			}
			if ds.Format(i) != decode.JPEG.String() {
				return nil
			}
			has, known := makeEntries(ctx, r, ds, e, i)
			mu.Lock()
			defer mu.Unlock()
			report.note(has, known)
			return nil
		}
	})
	if closing := store.Close(); closing != nil {
		err = cmp.Or(ctx.Err(), fmt.Errorf("%w: %w", ErrUnstored, closing))
	}
	if err != nil {
		return EntryReport{}, err
	}
	report.Bytes = store.Bytes()
	return report, nil
}

// makeEntries makes the entry points of sample i, unless it is known whether it has any.
func makeEntries(ctx context.Context, r *sample.Reader, ds *dataset.Dataset, e *sample.Entries, i int) (has, known bool) {
	if has, known = e.Known(int64(i), ds.Stat(i)); known {
		return has, known
	}
	img, err := r.Read(ctx, i, 0)
	if err != nil {
		return false, false // verify is for errors
	}
	n, _ := r.MakeEntries(i, img, e)
	return n.Used+n.Made > 0, n.Used+n.Made+n.None > 0
}

func (r *EntryReport) note(has, known bool) {
	switch {
	case has:
		r.Have++
	case known:
		r.None++
	default:
		r.Other++
	}
}
