// Package promptly ends long work within a moment of its context, even where a call in it
// hangs in the kernel, as calls to storage that does not answer do: nothing can end such
// a call, so it is left behind.
package promptly

import (
	"context"
	"sync"
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

// A Gate lets calls through, one at a time, until it is shut: what was left behind tells
// nobody anything more then. The zero value is open.
type Gate struct {
	mu   sync.Mutex
	shut bool
}

// Pass calls f unless the Gate is shut.
func (g *Gate) Pass(f func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.shut {
		f()
	}
}

// Shut waits for a call that is being made, and lets no more through.
func (g *Gate) Shut() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.shut = true
}

// Progress is report, which may be nil, behind a Gate that stop shuts.
func Progress(report func(done, total int64)) (reported func(done, total int64), stop func()) {
	if report == nil {
		return nil, func() {}
	}
	var g Gate
	return func(done, total int64) { g.Pass(func() { report(done, total) }) }, g.Shut
}
