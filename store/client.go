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
	"time"
)

// A client sends requests: a bounded number at once, again where that may help, and the
// slowest ones twice.
type client struct {
	pool      *connections
	transport http.RoundTripper // pool, perhaps with redirects
	slots     chan struct{}     // one for each request in flight
	timeout   time.Duration
	tries     int
	log       *slog.Logger

	retries   budget // a retry costs 1
	hedges    budget // a hedge costs 1
	latencies latencies
	count     counters
}

const (
	// As in the AWS SDK: 100 retries in a row, and then one for every five requests that succeed.
	mostRetries   = 100
	retriesEarned = 0.2
	// No more than this share of requests is sent twice, and few of those at once.
	hedgesEarned = 0.03

	firstDelay = 50 * time.Millisecond // mean; it doubles with each retry
	lastDelay  = 10 * time.Second
	longestAsk = time.Minute // Retry-After that is waited for
)

func newClient(o Options) *client {
	hedges := max(1, o.MaxRequests/32)
	c := &client{
		slots: make(chan struct{}, o.MaxRequests), timeout: o.Timeout, tries: o.Tries, log: o.Logger,
		retries: newBudget(mostRetries), hedges: newBudget(float64(hedges)),
	}
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
	c.transport = c.pool
	return c
}

// requestBytes is what a request takes, with its connection and the garbage of those before it: as measured in a mount.
const requestBytes = 96 << 10

// MemoryBytes implements [Store].
func (c *client) MemoryBytes() int64 { return int64(cap(c.slots)) * requestBytes }

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
}

// do makes a call.
func (c *client) do(ctx context.Context, q *call) error {
	mended := false
	for n := 1; ; n++ {
		err := c.try(ctx, q)
		if err == nil {
			c.retries.earn(retriesEarned)
			return nil
		}
		if ctx.Err() != nil {
			return ended(ctx, q.url)
		}
		var f *failure
		if !errors.As(err, &f) { // of the function that uses the answer
			return err
		}
		f.url = q.url
		if !mended && q.mend != nil && q.mend(f) {
			mended = true
		} else if end, why := c.ends(f, n); end {
			c.count.errors.Add(1)
			f.why += why
			return f
		} else if !sleep(ctx, max(delay(n, f.throttled), f.after)) {
			return ended(ctx, q.url)
		}
		c.count.retries.Add(1)
		c.log.Debug("a request to the store is sent again", "url", f.url, "try", n+1, "reason", f.why)
	}
}

// ends reports whether the n-th try was the last one, and why.
func (c *client) ends(f *failure, n int) (bool, string) {
	switch {
	case !f.again:
		return true, ""
	case f.after > longestAsk:
		return true, ", and not before " + f.after.String() + " are over"
	case n >= c.tries:
		return true, ", in every try"
	case !c.retries.spend():
		return true, ", as for other requests before"
	}
	return false, ""
}

// delay is how long to wait after the n-th try: a random time, longer for each, and longest
// where the store has too much to do.
func delay(n int, throttled bool) time.Duration {
	mean := firstDelay << min(n-1, 20)
	if throttled {
		mean *= 8
	}
	return rand.N(min(2*mean, lastDelay))
}

func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// try makes one request and has its answer used.
func (c *client) try(ctx context.Context, q *call) error {
	select {
	case c.slots <- struct{}{}:
		defer func() { <-c.slots }()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	a := c.attempt(ctx)
	defer a.end()
	answer, err := a.first(q)
	if err != nil {
		return network(err, a.end())
	}
	body := &watched{ReadCloser: answer.Body, alarm: a.timer, timeout: c.timeout}
	answer.Body = body
	defer body.Close()
	err = q.use(answer)
	if body.failed != nil { // whatever use made of that
		return network(body.failed, a.end())
	}
	return err
}

// watched is a body that has to make progress.
type watched struct {
	io.ReadCloser
	alarm   *time.Timer
	timeout time.Duration
	since   int   // bytes since the alarm was set
	failed  error // of reading, but for the end
}

// leastProgress is how much has to come before the timeout, or the rest of the body.
const leastProgress = 64 << 10

func (w *watched) Read(p []byte) (int, error) {
	n, err := w.ReadCloser.Read(p)
	if err != nil && err != io.EOF {
		w.failed = err
	}
	if w.since += n; w.since >= leastProgress {
		w.since = 0
		w.alarm.Reset(w.timeout)
	}
	return n, err
}

// network returns the failure for an error of the transport; that of another function stays.
func network(err error, stalled bool) error {
	var (
		f       *failure
		dns     *net.DNSError
		unknown x509.UnknownAuthorityError
		name    x509.HostnameError
		invalid x509.CertificateInvalidError
		plain   tls.RecordHeaderError
	)
	switch {
	case stalled:
		return &failure{kind: ErrAway, why: "no data came in time", again: true}
	case errors.As(err, &f):
		return f
	case errors.As(err, &dns) && dns.IsNotFound, errors.As(err, &unknown), errors.As(err, &name), errors.As(err, &invalid), errors.As(err, &plain):
		return &failure{kind: ErrAway, why: clean(err.Error())}
	}
	return &failure{kind: ErrAway, why: strings.TrimPrefix(clean(err.Error()), "net/http: "), again: true}
}
