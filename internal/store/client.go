package store

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"time"
)

// A client sends requests: no more than the store accepts, none during an outage, again if that may
// help, and the slowest ones twice.
type client struct {
	pool      *connections
	transport func(*http.Request) (*http.Response, error) // pool's, perhaps following redirects
	timeout   time.Duration
	log       *slog.Logger

	pace       *pace
	outage     outage
	hedges     atomic.Int64 // second requests that are still allowed, in hundredths
	mostHedges int64
	latencies  latencies
	count      counters
}

const (
	// In hundredths of a request: at most this share is sent twice, and few at once. So hedging
	// stops early in an outage, instead of multiplying it.
	hedgeEarned = 3
	hedgeCost   = 100

	mostTries  = 20                    // of a call that fails while others succeed: about half a minute
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
			// HTTP/1.1: a connection for each request. HTTP/2 would put all of them on one.
			TLSNextProto: map[string]func(string, *tls.Conn) http.RoundTripper{},
		},
	}
	c.transport = c.pool.RoundTrip
	return c
}

// requestBytes is the memory of a request, with its connection and the garbage of earlier requests,
// as measured in a mount.
const requestBytes = 96 << 10

// MemoryBytes implements [Store].
func (c *client) MemoryBytes() int64 { return int64(cap(c.pace.slots)) * requestBytes }

// Close implements [Store].
func (c *client) Close() error {
	c.pool.CloseIdleConnections()
	return nil
}

// A call is one question to the store, however many tries the answer takes.
type call struct {
	url   string // for people
	hedge bool   // a second request may be sent if the first one is slow
	// ask makes the request, once for each try.
	ask func(ctx context.Context) (*http.Request, error)
	// use reads the answer. Reading its body fails if no data comes for too long.
	use func(*http.Response) error
	// mend changes how requests are made, if the failure says how, and then returns true.
	mend func(*failure) bool

	answered bool // the store answered the last try
}

// do makes a call.
func (c *client) do(ctx context.Context, q *call) error {
	var since time.Time // start of failing or waiting
	mended := false
	for n, tries := 1, 1; ; n++ {
		err := c.try(ctx, q, tries, &since)
		if err == nil {
			return nil
		}
		if ctx.Err() != nil {
			return contextError(ctx, q.url)
		}
		var f *failure
		if !errors.As(err, &f) { // an error of use
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
		case !f.retryable, left <= 0, f.after > left, !away && tries >= mostTries:
			if f.kind != ErrNotExist {
				c.count.errors.Add(1)
			}
			if lasted := time.Since(since); lasted >= time.Second {
				f.why += ", for " + lasted.Round(time.Second).String()
			}
			return f
		default:
			if sleep(ctx, max(delay(tries), f.after)) != nil {
				return contextError(ctx, q.url)
			}
			if !away && !f.throttled {
				tries++
			}
		}
		c.count.retries.Add(1)
		c.log.Debug("a request to the store is sent again", "url", f.url, "try", n+1, "reason", f.why)
	}
}

// delay is how long to wait after the n-th try: a random time whose mean grows with n.
func delay(n int) time.Duration { return rand.N(min(2*firstDelay<<min(n-1, 20), lastDelay)) }

// sleep sleeps. If the context ends first, it returns the cause.
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

// try makes one request and uses its answer.
func (c *client) try(ctx context.Context, q *call, n int, since *time.Time) (err error) {
	round, asks, err := c.admit(ctx, since)
	if err != nil {
		return err
	}
	q.answered = false
	var f *failure
	defer func() {
		if ctx.Err() == nil && errors.As(err, &f) { // the context may have ended because another call failed
			f.url = q.url
		}
		c.pace.end(round, q.answered && (f == nil || !f.retryable), f != nil && f.throttled)
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

// admit waits until a request may be sent. If the request probes whether an outage is over, asks is
// the store's time to answer, else 0.
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

// watched is a body that must make progress.
type watched struct {
	io.ReadCloser
	alarm  *time.Timer
	quiet  time.Duration // some of it must come within this time
	slow   time.Duration // leastProgress bytes, or the rest, must come within this time
	due    time.Time     // deadline for that
	since  int           // bytes of it so far
	failed error         // error of reading, except for the end
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

// network turns an error of the transport into a failure. It returns other errors unchanged.
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
	case errors.As(err, &unknown), errors.As(err, &name), errors.As(err, &invalid):
		return &failure{kind: ErrUntrusted, why: strings.TrimPrefix(clean(err.Error()), "tls: failed to verify certificate: ")}
	case errors.As(err, &dns) && dns.IsNotFound && !c.outage.now().ever, errors.As(err, &plain):
		return &failure{kind: ErrAway, why: clean(err.Error())}
	}
	return &failure{kind: ErrAway, why: strings.TrimPrefix(clean(err.Error()), "net/http: "), retryable: true}
}
