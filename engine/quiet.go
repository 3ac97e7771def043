package engine

import "context"

// Quiet waits until the engine makes no batch for anyone, so that what is measured next is not
// slowed down by prefetching.
func (e *Engine) Quiet(ctx context.Context) error {
	stop := context.AfterFunc(ctx, func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		e.quiet.Broadcast()
	})
	defer stop()
	e.mu.Lock()
	defer e.mu.Unlock()
	for e.unfinished() > 0 && ctx.Err() == nil {
		e.quiet.Wait()
	}
	return ctx.Err()
}

// unfinished is the number of batches that are wanted or prefetched, and not complete. mu is
// held.
func (e *Engine) unfinished() int {
	return len(e.queue) + e.layingOut + len(e.making) + len(e.completed)
}
