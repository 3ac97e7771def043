// Package parallel spreads work over goroutines, reports its progress, and ends long work shortly
// after its context ends, even if a call hangs in the kernel.
package parallel

import (
	"context"
	"iter"
	"sync"
	"sync/atomic"

	"golang.org/x/sync/errgroup"
)

// maxChunk is the most items that a worker takes at a time: enough to make the locking
// negligible even where an item takes a microsecond.
const maxChunk = 64

// Each runs work in several goroutines, which share the numbers 0 to n-1 between them: each
// number is in the items of exactly one. The items end early when ctx is done or a worker
// fails; work gets a context that ends then too. Each returns the first error, or ctx's if the
// work was interrupted. At least one worker runs if n > 0. work may keep state of its own
// outside its loop over the items.
//
// progress, unless nil, is called with done = 0 first, and then as items are done. Calls do not
// overlap, and done never decreases.
func Each(ctx context.Context, workers, n int, progress func(done, total int64), work func(ctx context.Context, items iter.Seq[int]) error) error {
	workers = min(max(workers, 1), n)
	chunk := min(max(n/max(workers*64, 1), 1), maxChunk)
	var mu sync.Mutex // guards done and serializes progress
	var done int
	advance := func(items int) {
		mu.Lock()
		defer mu.Unlock()
		if done += items; progress != nil {
			progress(int64(done), int64(n))
		}
	}
	var next atomic.Int64
	group, inner := errgroup.WithContext(ctx)
	share := func(yield func(int) bool) {
		for {
			end := int(next.Add(int64(chunk)))
			start := end - chunk
			if end = min(end, n); start >= end {
				return
			}
			for i := start; i < end; i++ {
				if inner.Err() != nil || !yield(i) {
					return
				}
			}
			advance(end - start)
		}
	}
	advance(0)
	for range workers {
		group.Go(func() error { return work(inner, share) })
	}
	if err := group.Wait(); err != nil || done == n {
		return err
	}
	return ctx.Err()
}
