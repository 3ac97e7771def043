package convert

import (
	"context"
	"sync/atomic"

	"golang.org/x/sync/errgroup"
)

// chunk is how many samples a worker takes at a time: few, since some are quick and some
// are not.
const chunk = 16

// each has several goroutines work on 0..n-1, until one fails or ctx is done. start
// makes a worker's function and what is to be called at its end.
func each(ctx context.Context, workers, n int, start func(worker int) (work func(i int) error, end func())) error {
	var next atomic.Int64
	g, ctx := errgroup.WithContext(ctx)
	for worker := range min(workers, (n+chunk-1)/chunk) {
		g.Go(func() error {
			work, end := start(worker)
			defer end()
			for {
				from := int(next.Add(chunk)) - chunk
				if from >= n {
					return nil
				}
				for i := from; i < min(from+chunk, n); i++ {
					if err := ctx.Err(); err != nil {
						return err
					}
					if err := work(i); err != nil {
						return err
					}
				}
			}
		})
	}
	return g.Wait()
}
