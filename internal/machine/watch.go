package machine

import (
	"cmp"
	"log/slog"
	"sync"
	"time"
)

// A Watch adapts a mount's memory limit to the memory available.
type Watch struct {
	Memory *Memory
	// Used is the number of bytes that the mount uses.
	Used func() int64
	// SetLimit limits the use to n bytes. To meet the limit, the mount frees idle memory first,
	// and never memory in use.
	SetLimit func(n int64)
	Limit    int64 // bytes; the mount's own limit, never exceeded
	Shared   bool  // the limit is a Share, recomputed as mounts come and go
	Logger   *slog.Logger

	current int64 // the last limit set; 0: none
	state   state
	share   Share
	looked  int
}

// A state is the reason for the current limit. Only a change of it is logged.
type state struct {
	short  bool // memory is short
	mounts int  // number of mounts sharing it
	bound  string
}

const (
	interval   = time.Second / 2 // between checks
	recountsAt = 10              // number of checks between counts of the mounts
)

// Start checks the bounds twice a second until stop is called.
func (w *Watch) Start() (stop func()) {
	done, ticks := make(chan struct{}), time.NewTicker(interval)
	var running sync.WaitGroup
	running.Go(func() {
		defer ticks.Stop()
		for {
			w.look()
			select {
			case <-done:
				return
			case <-ticks.C:
			}
		}
	})
	return sync.OnceFunc(func() {
		close(done)
		running.Wait()
	})
}

// look checks the bounds and sets the limit, except for small changes: a lower limit is always set,
// a higher one only if it is much higher or no shortage restricts it.
func (w *Watch) look() {
	if w.looked%recountsAt == 0 {
		w.share = w.Memory.share()
	}
	w.looked++
	limit, now := w.Limit, state{}
	if w.Shared && w.share.Limit < limit {
		limit, now = w.share.Limit, state{mounts: w.share.Mounts, bound: w.share.Bound.Name}
	}
	used := w.Used()
	var left int64
	for _, b := range w.Memory.bounds() {
		more := b.Left - b.reserve()
		if more > 0 { // other mounts in the same bound see the same and take their part
			more /= int64(max(w.share.Mounts, 1))
		}
		if allowed := max(used+more, 1); allowed < limit {
			limit, left, now = allowed, b.Left, state{short: true, bound: b.Name}
		}
	}
	current := cmp.Or(w.current, w.Limit)
	enough := current
	if now.short {
		enough += current / 8
	}
	if limit >= current && limit <= enough {
		return
	}
	w.current = limit
	w.SetLimit(limit)
	w.say(now, limit, left)
}

func (w *Watch) say(now state, limit, left int64) {
	was := w.state
	w.state = now
	switch {
	case was == now, now.short && was.short:
	case now.short:
		w.Logger.Warn("the mount gives way: its memory limit is now what it uses and its share of what is left",
			"limit now", limit, "left", left, "in", now.bound)
	case now.mounts > 1:
		w.Logger.Info("the mount shares the memory with others", "limit now", limit, "mounts", now.mounts, "in", now.bound)
	default:
		w.Logger.Info("the mount's memory limit is what it was before", "limit now", limit)
	}
}
