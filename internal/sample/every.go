package sample

import (
	"cmp"
	"context"
	"iter"

	"github.com/batchfs/batchfs/dataset"
	"github.com/batchfs/batchfs/decode"
	"github.com/batchfs/batchfs/internal/parallel"
)

// Options say how a command looks at every sample of a dataset.
type Options struct {
	Decoding decode.Options
	Workers  int
	Memory   int64 // bytes that all samples may take together, at least 64 MiB
	// Progress, if not nil, reports how many samples are done. Calls do not overlap.
	Progress func(done, total int64)
	// Also, if not nil, is another check of a sample that Verify makes. room returns memory for it.
	// It may be called concurrently.
	Also func(i int, room func(n int) ([]byte, error)) error
}

// A look is what is done with a sample. It ends the work if it fails.
type look func(ctx context.Context, i int) error

// each has every sample from first to end-1 looked at, by o.Workers goroutines with a Reader and a
// look of their own. It returns ctx's error shortly after ctx ends, even if the storage hangs.
func each(ctx context.Context, ds *dataset.Dataset, o Options, first, end int, with func(r *Reader) look) error {
	report, stop := parallel.Progress(o.Progress)
	defer stop()
	memory := NewMemory(o.Memory, o.Workers)
	work := func(ctx context.Context, items iter.Seq[int]) error {
		r := NewReader(ds, o.Decoding, memory)
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
		return struct{}{}, parallel.Each(ctx, o.Workers, end-first, report, work)
	}, nil)
	return err
}
