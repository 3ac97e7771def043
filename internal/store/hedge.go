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
	began   time.Time
	timeout time.Duration
	stall   *time.Timer // ends the attempt if no data comes within the timeout

	mu      sync.Mutex
	decided bool                  // one answer is used, or none will be
	stalled bool                  // no data came in time
	cancel  [2]context.CancelFunc // of the requests
	second  chan *http.Response   // receives the second request's answer if it wins
}

const (
	// A second request is sent after this multiple of the time that 95 % of the answers took. Much
	// earlier, it would often duplicate a request that is not lost, and there are few second
	// requests.
	hedgeAfter = 2
	// The try is given up after this multiple of that time, and at least after the time below. Both
	// double with each try.
	hopeless        = 10
	soonestHopeless = 500 * time.Millisecond
)

// attempt begins an attempt, which the caller must end.
func (c *client) attempt(caller context.Context, timeout time.Duration) *attempt {
	a := &attempt{client: c, caller: caller, began: time.Now(), timeout: timeout}
	a.stall = time.AfterFunc(timeout, a.giveUp)
	return a
}

// first returns the first answer. Reading its body ends with the attempt, or when no data comes.
func (a *attempt) first(q *call) (*http.Response, error) {
	request, err := q.ask(a.begin(0))
	if err != nil {
		return nil, err
	}
	if slow := hedgeAfter * time.Duration(a.latencies.slow.Load()); q.hedge && slow != 0 && slow < a.timeout {
		if a.hedges.Add(hedgeEarned) > a.mostHedges {
			a.hedges.Add(-hedgeEarned)
		}
		a.second = make(chan *http.Response, 1)
		defer time.AfterFunc(slow, func() { a.hedge(request) }).Stop()
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

// begin returns the context of the first or second request. It has already ended if the request is
// no longer needed.
func (a *attempt) begin(which int) (ctx context.Context) {
	a.mu.Lock()
	defer a.mu.Unlock()
	ctx, a.cancel[which] = context.WithCancel(a.caller)
	if a.decided || a.stalled {
		a.cancel[which]()
	}
	return ctx
}

// hedge sends the second request.
func (a *attempt) hedge(first *http.Request) {
	ctx := a.begin(1)
	if ctx.Err() != nil || a.pace.limit() > 0 {
		return
	}
	if a.hedges.Add(-hedgeCost) < 0 {
		a.hedges.Add(hedgeCost)
		return
	}
	a.count.hedges.Add(1)
	answer, err := a.send(first.Clone(ctx))
	if err != nil {
		return
	}
	if answer.StatusCode/100 != 2 || !a.decide(1) { // only a good answer wins
		answer.Body.Close()
		return
	}
	a.second <- answer
}

// decide reports whether the answer to the first or second request is used, and ends the other
// request.
func (a *attempt) decide(which int) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.decided {
		return false
	}
	a.decided = true
	a.stall.Reset(a.timeout)
	if end := a.cancel[1-which]; end != nil {
		end()
	}
	return true
}

// giveUp ends the attempt, since no data has come in time.
func (a *attempt) giveUp() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.stalled = true
	if !a.decided {
		a.latencies.add(time.Since(a.began)) // at least this long; otherwise the client would never learn to wait longer
	}
	a.cancelAll()
}

// end ends the requests.
func (a *attempt) end() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.decided = true
	a.stall.Stop()
	a.cancelAll()
}

// cancelAll ends both requests. The caller holds the lock.
func (a *attempt) cancelAll() {
	for _, end := range a.cancel {
		if end != nil {
			end()
		}
	}
}

// failed turns an error of a request, or of reading its answer, into a failure.
func (a *attempt) failed(err error) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.stalled {
		return &failure{kind: ErrAway, why: "no data came in time", retryable: true}
	}
	return a.network(err)
}

// send makes one request and measures its first byte.
func (c *client) send(request *http.Request) (*http.Response, error) {
	c.count.requests.Add(1)
	start := time.Now()
	answer, err := c.transport(request)
	if err == nil && answer.StatusCode/100 == 2 { // other answers say nothing about how long data takes
		c.latencies.add(time.Since(start))
	}
	return answer, err
}
