package headroom

import (
	"log/slog"
	"time"
)

// A Tenant is what a Watch keeps within bounds.
type Tenant interface {
	// MemoryUsed is the number of bytes in use.
	MemoryUsed() int64
	// SetMemoryLimit limits the use to n bytes. The tenant frees memory to meet the limit:
	// idle memory first, never memory in use.
	SetMemoryLimit(n int64)
}

// A Watch adapts a mount's memory limit to the memory available.
type Watch struct {
	Host   *Host
	Tenant Tenant
	Limit  int64 // bytes; the mount's own limit, never exceeded
	Shared bool  // the limit is a Share, recomputed as mounts come and go
	Logger *slog.Logger

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

// Interval is the time between checks, and recountsAt the number of checks between counts
// of the mounts.
const (
	Interval   = time.Second
	recountsAt = 5
)

// Run checks the bounds at every tick and whenever the kernel reports pressure, until done
// is closed. pressure may be nil.
func (w *Watch) Run(done <-chan struct{}, ticks <-chan time.Time, pressure <-chan struct{}) {
	w.look()
	for {
		select {
		case <-done:
			return
		case <-ticks:
		case <-pressure:
		}
		w.look()
	}
}

// look checks the bounds and sets the limit, unless the change is within the noise: a lower
// limit is always set, a higher one if it is much higher or not restricted by a shortage.
func (w *Watch) look() {
	if w.looked%recountsAt == 0 {
		w.share = w.Host.share()
	}
	w.looked++
	limit, now := w.Limit, state{}
	if w.Shared && w.share.Limit < limit {
		limit, now = w.share.Limit, state{mounts: w.share.Mounts, bound: w.share.Bound.Name}
	}
	used := w.Tenant.MemoryUsed()
	var left int64
	for _, b := range w.Host.Bounds() {
		// Other mounts in the same bound see the same and take their part.
		more := b.Left - b.reserve()
		if more > 0 {
			more /= int64(max(w.share.Mounts, 1))
		}
		if allowed := max(used+more, 1); allowed < limit {
			limit, left, now = allowed, b.Left, state{short: true, bound: b.Name}
		}
	}
	enough := w.current
	if now.short {
		enough += w.current / 8
	}
	if w.current == 0 && limit == w.Limit || w.current > 0 && limit >= w.current && limit <= enough {
		return
	}
	w.current = limit
	w.Tenant.SetMemoryLimit(limit)
	w.say(now, limit, left)
}

func (w *Watch) say(now state, limit, left int64) {
	was := w.state
	w.state = now
	switch {
	case was == now, now.short && was.short:
	case now.short:
		w.Logger.Warn("the mount gives way: its memory limit is what it uses and its part of what is left",
			"limit now", limit, "left", left, "in", now.bound)
	case now.mounts > 1:
		w.Logger.Info("the mount shares the memory with others", "limit now", limit, "mounts", now.mounts, "in", now.bound)
	default:
		w.Logger.Info("the mount's memory limit is what it was again", "limit now", limit)
	}
}
