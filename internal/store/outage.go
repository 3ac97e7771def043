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
	most time.Duration // that a call waits

	mu     sync.Mutex
	failed int           // requests in a row
	since  time.Time     // the first of them failed
	open   bool          // there is an outage
	asking bool          // a call has been let through
	asked  int           // calls that were, in vain
	next   time.Time     // no other one is before
	change chan struct{} // closed when a call that waits should look again
	told   bool          // it was logged
	total  time.Duration // of all outages that are over
	ended  time.Time     // the last of them
	ever   bool          // the store has answered
	calls  int           // that wait
}

const (
	outageFailures  = 5                     // in a row
	outageThrottled = time.Second           // in which a store that wants fewer requests has accepted none
	firstPause      = 50 * time.Millisecond // between requests in an outage; it doubles
	lastPause       = time.Second
	firstTimeout    = time.Second      // of those requests; it doubles, as a store that comes back may be slow
	toldAfter       = time.Second      // an outage is logged
	strangerWait    = 15 * time.Second // for a store that has never answered: its name may be wrong
)

// pass waits while there is an outage. For a call that is let through as a probe it returns the
// probe's timeout, and the call must report to heard; 0 means that there is no outage. since is
// when the call began to wait or fail, and is set if it is zero; a call that has waited for as long
// as it may is let through for one last try.
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
// answered at all. A request that ended because its caller did counts for nothing. It reports
// whether this was the end of an outage.
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
	case f == nil || !f.again:
		return o.answered()
	}
	now := time.Now()
	if o.failed == 0 {
		o.since = now
	}
	o.failed++
	switch {
	case o.open && asked:
		if !o.told && now.Sub(o.since) >= toldAfter {
			o.told = true
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

// answered ends the outage, if there is one, and reports that. The lock is held.
func (o *outage) answered() bool {
	o.failed, o.ever = 0, true
	if !o.open {
		return false
	}
	lasted := time.Since(o.since)
	o.open = false
	o.total += lasted
	o.ended = time.Now()
	if close(o.change); o.told {
		o.told = false
		o.log.Info("the store answers again", "seconds", lasted.Seconds())
	}
	return true
}

// wake has calls that wait look again. The lock is held.
func (o *outage) wake() {
	if o.open {
		close(o.change)
		o.change = make(chan struct{})
	}
}

// patience is how long a call may go on failing. The lock is held.
func (o *outage) patience() time.Duration {
	if !o.ever {
		return min(o.most, strangerWait)
	}
	return o.most
}

// An outlook is what an outage is at a moment.
type outlook struct {
	open, ever bool
	ended      time.Time
	patience   time.Duration
	waiting    int           // calls
	away       time.Duration // in all outages, this one included
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
