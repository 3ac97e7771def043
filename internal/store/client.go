package store

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"time"
)

// A client sends requests: no more than the store accepts, none while it answers nobody, again
// where that may help, and the slowest ones twice.
type client struct {
	pool      *connections
	transport func(*http.Request) (*http.Response, error) // pool's, perhaps with redirects
	timeout   time.Duration
	log       *slog.Logger

	pace       *pace
	outage     outage
	hedges     atomic.Int64 // second requests that may be sent, in hundredths
	mostHedges int64
	latencies  latencies
	count      counters
}

const (
	// In hundredths of a request: no more than this share is sent twice, and few of those at once.
	// An outage ends that soon, instead of being multiplied by it.
	hedgeEarned = 3
	hedgeCost   = 100

	mostTries  = 20                    // of a call that fails while others do not: about half a minute
	firstDelay = 50 * time.Millisecond // mean; it doubles with each retry
	lastDelay  = 4 * time.Second
)

func newClient(o Options) *client {
	hedges := max(1, o.MaxRequests/32) // at once
	c := &client{
		timeout: o.Timeout, log: o.Logger, pace: newPace(o.MaxRequests), outage: outage{log: o.Logger, most: max(0, o.Wait)},
		mostHedges: int64(hedges) * hedgeCost,
	}
	c.hedges.Store(c.mostHedges)
	dial := o.dial
	if dial == nil {
		dial = (&net.Dialer{Timeout: o.Timeout, KeepAlive: 15 * time.Second}).DialContext
	}
	c.pool = &connections{
		dial: dial, timeout: o.Timeout, most: o.MaxRequests + hedges, hosts: map[origin]*host{},
		proxied: &http.Transport{
			Proxy: http.ProxyFromEnvironment, DialContext: dial, TLSHandshakeTimeout: o.Timeout,
			DisableCompression: true, MaxIdleConnsPerHost: o.MaxRequests + hedges, IdleConnTimeout: idleTime,
			// HTTP/1.1: a connection for each request, as HTTP/2 would put all of them on one.
			TLSNextProto: map[string]func(string, *tls.Conn) http.RoundTripper{},
		},
	}
	c.transport = c.pool.RoundTrip
	return c
}

// requestBytes is what a request takes, with its connection and the garbage of those before it: as
// measured in a mount.
const requestBytes = 96 << 10

// MemoryBytes implements [Store].
func (c *client) MemoryBytes() int64 { return int64(cap(c.pace.slots)) * requestBytes }

// Close implements [Store].
func (c *client) Close() error {
	c.pool.CloseIdleConnections()
	return nil
}

// A call is one question to the store, however often it takes to get an answer.
type call struct {
	url   string // for people
	hedge bool   // a second request may be sent if the first one is slow
	// ask makes the request, anew for each try.
	ask func(ctx context.Context) (*http.Request, error)
	// use takes the answer. Reading its body fails once no data has come for too long.
	use func(*http.Response) error
	// mend changes how the store is asked, if the failure says how, and reports that.
	mend func(*failure) bool

	answered bool // by the store, in the last try
}

// do makes a call.
func (c *client) do(ctx context.Context, q *call) error {
	var since time.Time // it has failed or waited
	mended := false
	for n, tries := 1, 1; ; n++ {
		err := c.try(ctx, q, tries, &since)
		if err == nil {
			return nil
		}
		if ctx.Err() != nil {
			return ended(ctx, q.url)
		}
		var f *failure
		if !errors.As(err, &f) { // of the function that uses the answer
			return err
		}
		if since.IsZero() {
			since = time.Now()
		}
		now := c.outage.now()
		left, away := now.patience-time.Since(since), now.open
		switch {
		case !mended && q.mend != nil && q.mend(f):
			mended = true
		case !f.again, left <= 0, f.after > left, !away && tries >= mostTries:
			if f.kind != ErrNotExist {
				c.count.errors.Add(1)
			}
			f.why += lastReason(f, left, time.Since(since), tries)
			return f
		default:
			if sleep(ctx, max(delay(tries), f.after)) != nil {
				return ended(ctx, q.url)
			}
			if !away && !f.throttled {
				tries++
			}
		}
		c.count.retries.Add(1)
		c.log.Debug("a request to the store is sent again", "url", f.url, "try", n+1, "reason", f.why)
	}
}

// lastReason is why a call ends that has failed so often and for so long, and could have gone on
// for what is left.
func lastReason(f *failure, left, lasted time.Duration, tries int) string {
	switch {
	case !f.again:
		return ""
	case left > 0 && f.after > left:
		return ", and not before " + f.after.String() + " are over"
	case left > 0:
		return fmt.Sprintf(", in %d tries", tries)
	case lasted < time.Second:
		return ""
	}
	return ", for " + lasted.Round(time.Second).String()
}

// delay is how long to wait after the n-th try: a random time, longer for each.
func delay(n int) time.Duration { return rand.N(min(2*firstDelay<<min(n-1, 20), lastDelay)) }

// sleep returns the cause of the context's end if that comes first.
func sleep(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return nil
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// try makes one request and has its answer used.
func (c *client) try(ctx context.Context, q *call, n int, since *time.Time) (err error) {
	round, asks, err := c.admit(ctx, since)
	if err != nil {
		return err
	}
	q.answered = false
	var f *failure
	defer func() {
		if ctx.Err() == nil && errors.As(err, &f) { // the cause of its end may be another call's failure
			f.url = q.url
		}
		c.pace.end(round, q.answered && (f == nil || !f.again), f != nil && f.throttled)
		over := c.outage.heard(asks > 0, q.answered, f, ctx.Err() != nil || err != nil && f == nil && !q.answered)
		if over {
			c.pace.learnAnew()
		}
	}()
	timeout := c.timeout
	if asks > 0 {
		timeout = min(timeout, asks)
	} else if slow := c.latencies.slow.Load(); q.hedge && slow != 0 {
		timeout = min(timeout, max(hopeless*time.Duration(slow), soonestHopeless)<<min(n-1, 10))
	}
	a := c.attempt(ctx, timeout)
	defer a.end()
	answer, err := a.first(q)
	if err != nil {
		return a.failed(err)
	}
	q.answered = true
	body := &watched{ReadCloser: answer.Body, alarm: a.stall, quiet: timeout, slow: c.timeout, due: time.Now().Add(c.timeout)}
	answer.Body = body
	defer body.Close()
	err = q.use(answer)
	if body.failed != nil { // whatever use made of that
		return a.failed(body.failed)
	}
	return err
}

// admit waits until a request may be sent. asks is not 0 if that is to find out whether an outage
// is over: the time that the store has for its answer.
func (c *client) admit(ctx context.Context, since *time.Time) (round uint32, asks time.Duration, err error) {
	for {
		if asks, err = c.outage.pass(ctx, since); err != nil {
			return 0, 0, err
		}
		if round, err = c.pace.begin(ctx); err != nil {
			c.outage.heard(asks > 0, false, nil, true)
			return 0, 0, err
		}
		if asks > 0 || !c.outage.now().open {
			return round, asks, nil
		}
		c.pace.end(round, false, false) // the outage began while the call waited for its turn
	}
}

// watched is a body that has to make progress.
type watched struct {
	io.ReadCloser
	alarm  *time.Timer
	quiet  time.Duration // in which some of it has to come
	slow   time.Duration // and leastProgress, or the rest
	due    time.Time     // for that
	since  int           // bytes towards it
	failed error         // of reading, but for the end
}

const leastProgress = 64 << 10

func (w *watched) Read(p []byte) (int, error) {
	n, err := w.ReadCloser.Read(p)
	if err != nil && err != io.EOF {
		w.failed = err
	}
	if n > 0 && err == nil {
		now := time.Now()
		if w.since += n; w.since >= leastProgress {
			w.since, w.due = 0, now.Add(w.slow)
		}
		w.alarm.Reset(max(0, min(w.quiet, w.due.Sub(now))))
	}
	return n, err
}

// network returns the failure for an error of the transport; that of another function stays.
func (c *client) network(err error) error {
	var (
		f       *failure
		dns     *net.DNSError
		unknown x509.UnknownAuthorityError
		name    x509.HostnameError
		invalid x509.CertificateInvalidError
		plain   tls.RecordHeaderError
	)
	switch {
	case errors.As(err, &f):
		return f
	case errors.As(err, &dns) && dns.IsNotFound && !c.outage.now().ever, errors.As(err, &unknown), errors.As(err, &name), errors.As(err, &invalid), errors.As(err, &plain):
		return &failure{kind: ErrAway, why: clean(err.Error())}
	}
	return &failure{kind: ErrAway, why: strings.TrimPrefix(clean(err.Error()), "net/http: "), again: true}
}
