package store

import (
	"context"
	"net/http"
	"sync"
	"time"
)

// An attempt is one try of a call: a request and, if its answer takes long, a second one beside it.
type attempt struct {
	*client
	caller  context.Context
	request *http.Request
	began   time.Time
	timeout time.Duration // without data
	// The timer ends when the second request is to be sent, and then whenever no data has come for
	// too long.
	timer *time.Timer

	mu      sync.Mutex
	hedge   bool                  // a second request may still be sent
	late    bool                  // the timer had ended, but an answer came before fire was called
	decided bool                  // one of the answers is used, or none any more
	stalled bool                  // no data came in time
	cancel  [2]context.CancelFunc // of the requests
	second  chan *http.Response   // if it won
}

const (
	// A second request is sent after so many times what 95 % of the answers took. Much earlier, it
	// would often be for one that is not lost, and there are few.
	hedgeAfter = 2
	// And the try is given up after so many times that, or this long at least. It doubles with each
	// try.
	hopeless        = 10
	soonestHopeless = 500 * time.Millisecond
)

func (c *client) attempt(caller context.Context, timeout time.Duration) *attempt {
	a := &attempt{client: c, caller: caller, began: time.Now(), timeout: timeout}
	a.timer = time.AfterFunc(timeout, a.fire)
	return a
}

// first returns the first answer. Reading its body ends with the attempt, or when no data comes.
func (a *attempt) first(q *call) (*http.Response, error) {
	ctx, cancel := context.WithCancel(a.caller)
	a.mu.Lock()
	a.cancel[0] = cancel
	if a.stalled {
		cancel()
	}
	a.mu.Unlock()
	request, err := q.ask(ctx)
	if err != nil {
		return nil, err
	}
	if slow := hedgeAfter * time.Duration(a.latencies.slow.Load()); q.hedge && slow != 0 && slow < a.timeout {
		a.hedges.earn(hedgesEarned)
		a.mu.Lock()
		a.request, a.hedge = request, !a.stalled
		a.timer.Reset(slow)
		a.mu.Unlock()
	}
	answer, err := a.send(request)
	if a.decide(0) {
		return answer, err
	}
	if err == nil {
		answer.Body.Close()
	}
	return <-a.second, nil
}

// fire is called when the timer ends.
func (a *attempt) fire() {
	a.mu.Lock()
	if a.late {
		a.late = false
		a.mu.Unlock()
		return
	}
	if !a.hedge {
		if a.stalled = true; !a.decided {
			a.latencies.add(time.Since(a.began)) // at least: else none would ever be waited for longer
		}
		a.cancelAll()
		a.mu.Unlock()
		return
	}
	a.hedge = false
	a.timer.Reset(a.timeout - time.Since(a.began))
	if a.pace.limit() > 0 || !a.hedges.spend() {
		a.mu.Unlock()
		return
	}
	a.second = make(chan *http.Response, 1)
	ctx, cancel := context.WithCancel(a.caller)
	a.cancel[1] = cancel
	a.mu.Unlock()
	a.count.hedges.Add(1)
	answer, err := a.send(a.request.Clone(ctx))
	if err != nil {
		return
	}
	if answer.StatusCode/100 != 2 || !a.decide(1) { // only a good answer wins
		answer.Body.Close()
		return
	}
	a.second <- answer
}

// decide reports whether an answer, to the first or second request, is the one that is used, and
// ends the other request.
func (a *attempt) decide(which int) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.decided {
		return false
	}
	running := a.timer.Reset(a.timeout)
	a.decided, a.hedge, a.late = true, false, a.hedge && !running
	if end := a.cancel[1-which]; end != nil {
		end()
	}
	return true
}

// end ends the requests. It reports whether no data came in time.
func (a *attempt) end() (stalled bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.decided, a.hedge = true, false
	a.timer.Stop()
	a.cancelAll()
	return a.stalled
}

// cancelAll ends both requests. The lock is held.
func (a *attempt) cancelAll() {
	for _, end := range a.cancel {
		if end != nil {
			end()
		}
	}
}

// send makes one request and measures its first byte.
func (c *client) send(request *http.Request) (*http.Response, error) {
	c.count.requests.Add(1)
	start := time.Now()
	answer, err := c.transport.RoundTrip(request)
	if err == nil && answer.StatusCode/100 == 2 { // others say nothing about how long data takes
		c.latencies.add(time.Since(start))
	}
	return answer, err
}
