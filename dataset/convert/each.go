package convert

import (
	"context"
	"sync/atomic"

	"golang.org/x/sync/errgroup"
)

// each runs several workers over 0..n-1 until one fails or ctx is done. start returns a
// worker's function and its cleanup.
func each(ctx context.Context, workers, n int, start func(worker int) (work func(i int) error, end func())) error {
	var next atomic.Int64
	g, ctx := errgroup.WithContext(ctx)
	for worker := range min(workers, n) {
		g.Go(func() error {
			work, end := start(worker)
			defer end()
			for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
				if err := ctx.Err(); err != nil {
					return err
				}
				if err := work(i); err != nil {
					return err
				}
			}
			return nil
		})
	}
	return g.Wait()
}
