package headroom

import (
	"log/slog"
	"time"
)

// A Tenant is what a Watch keeps within bounds.
type Tenant interface {
	// MemoryUsed is how many bytes it uses now.
	MemoryUsed() int64
	// SetMemoryLimit tells it to use no more than n bytes, and to give way down to
	// that: what nobody waits for first, never what is in use.
	SetMemoryLimit(n int64)
}

// A Watch adapts a mount's memory limit to what there is.
type Watch struct {
	Host   *Host
	Tenant Tenant
	Limit  int64 // bytes: what the mount was told, never more
	Shared bool  // the limit is a Share, to be divided anew as mounts come and go
	Logger *slog.Logger

	current int64 // what the tenant was last told; 0: nothing
	state   state
	share   Share
	looked  int
}

// A state is why the limit is what it is. Only a change of it is logged.
type state struct {
	short  bool // memory is
	mounts int  // that share it
	bound  string
}

// How often a Watch looks at what is left, and after how many looks it counts the
// mounts again.
const (
	Interval   = time.Second
	recountsAt = 5
)

// Run looks at every tick, and whenever the kernel reports pressure, until done is
// closed. pressure may be nil.
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

// look decides on the limit, and says so where the reason is a new one.
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
		// Others who watch the same bound see the same, and take their part.
		more := b.Left - b.reserve()
		if more > 0 && w.share.Mounts > 1 {
			more /= int64(w.share.Mounts)
		}
		if allowed := max(used+more, 1); allowed < limit {
			limit, left, now = allowed, b.Left, state{short: true, bound: b.Name}
		}
	}
	if !w.worthwhile(limit, now.short) {
		return
	}
	w.current = limit
	w.Tenant.SetMemoryLimit(limit)
	w.say(now, limit, left)
}

// worthwhile tells whether a change of the limit is more than the noise of what is
// left. Less is always told, more only where it is a good deal more, or all there is.
func (w *Watch) worthwhile(limit int64, short bool) bool {
	switch {
	case w.current == 0:
		return limit < w.Limit // it knows what it was told
	case limit < w.current:
		return true
	case short:
		return limit > w.current+w.current/8
	}
	return limit > w.current
}

func (w *Watch) say(now state, limit, left int64) {
	was := w.state
	w.state = now
	switch {
	case was == now:
	case now.short && !was.short:
		w.Logger.Warn("the mount gives way: its memory limit is what it uses and its part of what is left",
			"limit now", limit, "left", left, "in", now.bound)
	case now.short:
	case now.mounts > 1:
		w.Logger.Info("the mount shares the memory with others", "limit now", limit, "mounts", now.mounts, "in", now.bound)
	default:
		w.Logger.Info("the mount's memory limit is what it was again", "limit now", limit)
	}
}
