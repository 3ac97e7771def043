// Package parallel spreads work over goroutines and reports its progress.
package parallel

import (
	"context"
	"iter"
	"sync"
	"sync/atomic"

	"golang.org/x/sync/errgroup"
)

// maxChunk is how many items a worker takes at a time at most: enough to make the locking
// negligible even where an item takes a microsecond.
const maxChunk = 64

// Each runs work in several goroutines, which share the numbers 0 to n-1 between them: each
// number is in the items of exactly one. The items end early when ctx is done or a worker
// fails; work gets a context that ends then too. Each returns the first error, or ctx's if the
// work was interrupted. At least one worker runs if n > 0.
//
// work may keep state of its own outside its loop over the items:
//
//	err := parallel.Each(ctx, workers, n, progress, func(ctx context.Context, items iter.Seq[int]) error {
//		r := newReader()
//		defer r.Close()
//		for i := range items {
//			if err := r.read(ctx, i); err != nil {
//				return err
//			}
//		}
//		return nil
//	})
//
// progress, unless nil, is called with done = 0 first, and then as items are done. Calls do not
// overlap, and done never decreases.
func Each(ctx context.Context, workers, n int, progress func(done, total int64), work func(ctx context.Context, items iter.Seq[int]) error) error {
	workers = min(max(workers, 1), n)
	group, inner := errgroup.WithContext(ctx)
	p := &pool{ctx: inner, n: int64(n), chunk: int64(min(max(n/max(workers*64, 1), 1), maxChunk)), progress: progress}
	p.advance(0)
	for range workers {
		group.Go(func() error { return work(inner, p.items) })
	}
	if err := group.Wait(); err != nil {
		return err
	}
	if p.done < p.n {
		return ctx.Err()
	}
	return nil
}

type pool struct {
	ctx      context.Context
	n, chunk int64
	next     atomic.Int64

	mu       sync.Mutex // guards done and serializes progress
	done     int64
	progress func(done, total int64)
}

// items is one worker's share.
func (p *pool) items(yield func(int) bool) {
	for {
		end := p.next.Add(p.chunk)
		start := end - p.chunk
		if end = min(end, p.n); start >= end {
			return
		}
		for i := start; i < end; i++ {
			if p.ctx.Err() != nil || !yield(int(i)) {
				return
			}
		}
		p.advance(end - start)
	}
}

func (p *pool) advance(items int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.done += items
	if p.progress != nil {
		p.progress(p.done, p.n)
	}
}
