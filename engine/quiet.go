package engine

import "context"

// Quiet waits until the engine makes no batch for anyone, so that what is measured next is not
// slowed down by prefetching.
func (e *Engine) Quiet(ctx context.Context) error {
	all := e.batches
	stop := context.AfterFunc(ctx, func() {
		all.mu.Lock()
		defer all.mu.Unlock()
		all.quiet.Broadcast()
	})
	defer stop()
	all.mu.Lock()
	defer all.mu.Unlock()
	for all.schedule.count() > 0 && ctx.Err() == nil {
		all.quiet.Wait()
	}
	return ctx.Err()
}
