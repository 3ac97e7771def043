package store

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

// An outage is a time in which a store does not answer. It begins when several requests in a row
// fail in ways that may be temporary. While it lasts, calls wait, and one at a time is let through
// as a probe. Any answer ends the outage.
type outage struct {
	log  *slog.Logger
	most time.Duration // a call waits at most this long

	mu     sync.Mutex
	failed int           // failed requests in a row
	since  time.Time     // when the first of them failed
	open   bool          // there is an outage
	asking bool          // a call is probing
	asked  int           // probes that failed
	next   time.Time     // earliest time of the next probe
	change chan struct{} // closed when waiting calls should look again
	logged bool          // the outage was logged
	total  time.Duration // of all past outages
	ended  time.Time     // end of the last outage
	ever   bool          // the store has answered
	calls  int           // number of waiting calls
}

const (
	outageFailures  = 5                     // in a row
	outageThrottled = time.Second           // a store that throttles has accepted no request for this long
	firstPause      = 50 * time.Millisecond // between probes; it doubles
	lastPause       = time.Second
	firstTimeout    = time.Second      // of probes; it doubles, since a store that comes back may be slow
	toldAfter       = time.Second      // after this time, an outage is logged
	strangerWait    = 15 * time.Second // for a store that has never answered: its name may be wrong
)

// pass waits while there is an outage. If it lets a call through as a probe, it returns the probe's
// timeout, and the call must report to heard; 0 means that there is no outage. since is when the
// call began to wait or fail; pass sets it if it is zero. A call that has waited as long as it may
// gets one last try.
func (o *outage) pass(ctx context.Context, since *time.Time) (timeout time.Duration, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for o.open {
		now := time.Now()
		if since.IsZero() {
			*since = now
		}
		until := since.Add(o.patience())
		if !o.asking && !now.Before(o.next) || !now.Before(until) {
			o.asking = true
			return firstTimeout << min(o.asked, 10), nil
		}
		wake := until
		if !o.asking && o.next.Before(until) {
			wake = o.next
		}
		change := o.change
		o.calls++
		o.mu.Unlock()
		timer := time.NewTimer(time.Until(wake))
		select {
		case <-change:
		case <-timer.C:
		case <-ctx.Done():
			err = context.Cause(ctx)
		}
		timer.Stop()
		o.mu.Lock()
		if o.calls--; err != nil {
			return 0, err
		}
	}
	return 0, nil
}

// heard takes the outcome of a request: its failure, if f is not nil, and whether the store
// answered at all. A request that ended because its caller did is ignored. heard reports whether an
// outage is over now.
func (o *outage) heard(asked, answered bool, f *failure, ended bool) (over bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if asked {
		o.asking = false
		o.wake()
	}
	o.ever = o.ever || answered
	switch {
	case ended:
		return false
	case f == nil || !f.retryable:
		return o.answered()
	}
	now := time.Now()
	if o.failed == 0 {
		o.since = now
	}
	o.failed++
	switch {
	case o.open && asked:
		if !o.logged && now.Sub(o.since) >= toldAfter {
			o.logged = true
			o.log.Warn("the store does not answer: what needs it waits", "url", f.url, "reason", f.why, "at most", o.patience())
		}
		o.asked++
		o.next = now.Add(max(min(firstPause<<min(o.asked, 10), lastPause), f.after))
	case !o.open && o.failed >= outageFailures && (!f.throttled || now.Sub(o.since) >= outageThrottled):
		o.open, o.asked, o.next = true, 0, now.Add(firstPause)
		o.change = make(chan struct{})
	}
	return false
}

// answered ends any outage, and reports whether there was one. The caller holds the lock.
func (o *outage) answered() bool {
	o.failed, o.ever = 0, true
	if !o.open {
		return false
	}
	lasted := time.Since(o.since)
	o.open = false
	o.total += lasted
	o.ended = time.Now()
	if close(o.change); o.logged {
		o.logged = false
		o.log.Info("the store answers again", "seconds", lasted.Seconds())
	}
	return true
}

// wake makes waiting calls look again. The caller holds the lock.
func (o *outage) wake() {
	if o.open {
		close(o.change)
		o.change = make(chan struct{})
	}
}

// patience is how much longer a call may fail. The caller holds the lock.
func (o *outage) patience() time.Duration {
	if !o.ever {
		return min(o.most, strangerWait)
	}
	return o.most
}

// An outlook is the state of an outage at a moment.
type outlook struct {
	open, ever bool
	ended      time.Time
	patience   time.Duration
	waiting    int           // number of calls
	away       time.Duration // in all outages, including this one
}

func (o *outage) now() outlook {
	o.mu.Lock()
	defer o.mu.Unlock()
	l := outlook{open: o.open, ever: o.ever, ended: o.ended, patience: o.patience(), waiting: o.calls, away: o.total}
	if o.open {
		l.away += time.Since(o.since)
	}
	return l
}

// Held implements [Store].
func (c *client) Held() (last time.Time, away bool) {
	now := c.outage.now()
	if now.open || c.pace.limit() > 0 {
		return time.Now(), now.open
	}
	return now.ended, false
}
