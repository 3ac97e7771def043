// Package promptly ends long work within a moment of its context, even where a call in it
// hangs in the kernel, as calls to storage that does not answer do: nothing can end such
// a call, so it is left behind.
package promptly

import (
	"context"
	"time"
)

// grace is how long work may take to end in order. Nobody notices it; what reads
// samples one after the other, and looks at its context between them, needs less.
const grace = 250 * time.Millisecond

// Do returns what f returns, which ends early when ctx is done. Where f does not end
// within a moment then, Do returns ctx's error and leaves f behind; what f returns in
// the end, without an error, goes to late, which may be nil. While f is left behind it
// may go on using whatever it was given.
func Do[T any](ctx context.Context, f func() (T, error), late func(T)) (T, error) {
	type result struct {
		value T
		err   error
	}
	done := make(chan result, 1)
	go func() {
		value, err := f()
		done <- result{value, err}
	}()
	select {
	case r := <-done:
		return r.value, r.err
	case <-ctx.Done():
	}
	timer := time.NewTimer(grace)
	defer timer.Stop()
	select {
	case r := <-done:
		return r.value, r.err
	case <-timer.C:
	}
	if late != nil {
		go func() {
			if r := <-done; r.err == nil {
				late(r.value)
			}
		}()
	}
	var none T
	return none, ctx.Err()
}

// Progress is report, which may be nil, until stop was called: what was left behind
// reports no more then. Calls of report do not overlap.
func Progress(report func(done, total int64)) (reported func(done, total int64), stop func()) {
	if report == nil {
		return nil, func() {}
	}
	turn := make(chan bool, 1) // holds whether report may still be called
	turn <- true
	reported = func(done, total int64) {
		live := <-turn
		defer func() { turn <- live }()
		if live {
			report(done, total)
		}
	}
	stop = func() { <-turn; turn <- false }
	return reported, stop
}
