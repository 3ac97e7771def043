package store

import (
	"context"
	"net/http"
	"sync/atomic"
	"time"
)

// first returns the first answer to a request, or to the one that is sent beside it if that
// takes long. What it returns, and reads of its body, end with ctx.
func (c *client) first(ctx context.Context, q *call) (*http.Response, error) {
	slow := time.Duration(c.latencies.slow.Load())
	if !q.hedge || slow == 0 {
		request, err := q.ask(ctx)
		if err != nil {
			return nil, err
		}
		return c.send(request)
	}
	c.hedges.earn(hedgesEarned)
	ours, endFirst := context.WithCancel(ctx)
	request, err := q.ask(ours)
	if err != nil {
		endFirst()
		return nil, err
	}
	theirs, endSecond := context.WithCancel(ctx)
	r := &race{second: make(chan *http.Response, 1), endFirst: endFirst, endSecond: endSecond}
	timer := time.AfterFunc(slow, func() {
		if c.hedges.spend() {
			c.count.hedges.Add(1)
			answer, err := c.send(request.Clone(theirs))
			r.arrive(answer, err)
		}
	})
	answer, err := c.send(request)
	if r.decided.CompareAndSwap(false, true) {
		timer.Stop()
		r.endSecond()
		return answer, err
	}
	if err == nil {
		answer.Body.Close()
	}
	return <-r.second, nil
}

// A race is between a request and the one beside it.
type race struct {
	decided             atomic.Bool
	second              chan *http.Response // if it won
	endFirst, endSecond func()
}

// arrive is called with the answer to the second request. Only a good one wins.
func (r *race) arrive(answer *http.Response, err error) {
	if err != nil {
		return
	}
	if answer.StatusCode/100 != 2 || !r.decided.CompareAndSwap(false, true) {
		answer.Body.Close()
		return
	}
	r.second <- answer
	r.endFirst()
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
