package annotation

import (
	"cmp"
	"context"
	"iter"

	"github.com/batchfs/batchfs/decode"
	"github.com/batchfs/batchfs/internal/dataset"
	"github.com/batchfs/batchfs/internal/parallel"
	"github.com/batchfs/batchfs/internal/sample"
)

// Work says how every file of a dataset is looked at.
type Work struct {
	Decoding decode.Options
	Workers  int
	Memory   int64 // bytes that all files may take together, at least 64 MiB
	// Progress, if not nil, returns what is told how many files of a kind are done. Such calls do
	// not overlap.
	Progress func(kind string) func(done, total int64)
}

// A visit is what is done with a file. It ends the work if it fails.
type visit func(ctx context.Context, i int) error

// each has every file from first to end-1 looked at, by w.Workers goroutines with a Reader and a
// look of their own. It returns ctx's error shortly after ctx ends, even if the storage hangs.
func (w *Work) each(ctx context.Context, ds *dataset.Dataset, kind string, first, end int, with func(r *sample.Reader) visit) error {
	var report func(done, total int64)
	if w.Progress != nil {
		report = w.Progress(kind)
	}
	report, stop := parallel.Progress(report)
	defer stop()
	memory := sample.NewMemory(w.Memory, w.Workers)
	work := func(ctx context.Context, items iter.Seq[int]) error {
		r := sample.NewReader(ds, w.Decoding, memory)
		defer r.Close()
		look := with(r)
		for i := range items {
			err := look(ctx, first+i)
			r.Done()
			if err = cmp.Or(ctx.Err(), err); err != nil {
				return err
			}
		}
		return nil
	}
	_, err := parallel.Promptly(ctx, func() (struct{}, error) {
		return struct{}{}, parallel.Each(ctx, w.Workers, end-first, report, work)
	}, nil)
	return err
}
