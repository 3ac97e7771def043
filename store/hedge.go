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
	// The timer ends when the second request is to be sent, and then whenever no data has come for too long.
	timer *time.Timer

	mu      sync.Mutex
	hedge   bool                  // a second request may still be sent
	late    bool                  // the timer had ended, but an answer came before fire was called
	decided bool                  // one of the answers is used, or none any more
	stalled bool                  // no data came in time
	cancel  [2]context.CancelFunc // of the requests
	second  chan *http.Response   // if it won
}

func (c *client) attempt(caller context.Context) *attempt {
	a := &attempt{client: c, caller: caller}
	a.timer = time.AfterFunc(c.timeout, a.fire)
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
	if slow := time.Duration(a.latencies.slow.Load()); q.hedge && slow != 0 {
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
		a.stalled = true
		a.cancelAll()
		a.mu.Unlock()
		return
	}
	a.hedge = false
	a.timer.Reset(a.timeout)
	if !a.hedges.spend() {
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

// decide reports whether an answer, to the first or second request, is the one that is used, and ends the other request.
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
	if err == nil {
		c.latencies.add(time.Since(start))
	}
	return answer, err
}
