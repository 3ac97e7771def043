package parallel

import (
	"context"
	"sync"
	"time"
)

// grace is how long work may take to end cleanly. Users do not notice it, and work that
// checks its context between samples needs less.
const grace = 250 * time.Millisecond

// Promptly returns what f returns. f should end when ctx is done. If it does not soon, because
// storage does not answer and a call hangs in the kernel, which nothing can end, Promptly returns
// ctx's error and leaves f behind, which may continue to use its inputs. If f succeeds after that,
// its value goes to late, which may be nil.
func Promptly[T any](ctx context.Context, f func() (T, error), late func(T)) (T, error) {
	var value T
	var err error
	done := make(chan struct{})
	go func() {
		defer close(done)
		value, err = f()
	}()
	select {
	case <-done:
		return value, err
	case <-ctx.Done():
	}
	select {
	case <-done:
		return value, err
	case <-time.After(grace):
	}
	go func() {
		if <-done; err == nil && late != nil {
			late(value)
		}
	}()
	var none T
	return none, ctx.Err()
}

// Progress wraps report, which may be nil. After stop, which waits for a call in progress, report
// is not called any more: abandoned work stays silent.
func Progress(report func(done, total int64)) (reported func(done, total int64), stop func()) {
	if report == nil {
		return nil, func() {}
	}
	var mu sync.Mutex
	stopped := false
	reported = func(done, total int64) {
		mu.Lock()
		defer mu.Unlock()
		if !stopped {
			report(done, total)
		}
	}
	return reported, func() {
		mu.Lock()
		defer mu.Unlock()
		stopped = true
	}
}
