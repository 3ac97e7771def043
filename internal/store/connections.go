package store

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"math"
	"net"
	"net/http"
	"net/url"
	"slices"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// connections sends requests without a body over HTTP/1.1, one at a time on each connection, and
// keeps connections for later requests. [http.Transport] has two goroutines for each connection,
// and hands each request from one to the other and back; here the caller's goroutine writes the
// request and reads the answer. Requests through a proxy are left to the transport.
type connections struct {
	dial    func(ctx context.Context, network, address string) (net.Conn, error)
	tls     *tls.Config   // nil: Go's defaults
	timeout time.Duration // for connecting, and again for TLS
	most    int           // idle connections of a host
	proxied *http.Transport

	mu    sync.Mutex
	hosts map[origin]*host
}

// An origin is the key of kept connections.
type origin struct{ scheme, host string }

// A host has the idle connections to a server.
type host struct {
	*connections
	origin
	proxy bool // a proxy is in front of it

	mu   sync.Mutex
	idle []*connection // the most recently used one last
}

const (
	idleTime    = 90 * time.Second
	briefly     = time.Second
	longestHead = 1 << 20 // bytes of an answer before its body
)

// RoundTrip implements http.RoundTripper.
func (c *connections) RoundTrip(r *http.Request) (*http.Response, error) {
	h, err := c.host(r)
	if err != nil {
		return nil, err
	}
	if h.proxy {
		return c.proxied.RoundTrip(r)
	}
	for {
		conn, err := h.take(r.Context())
		if err != nil {
			return nil, err
		}
		answer, err := conn.exchange(r)
		switch {
		case err == nil:
			return answer, nil
		case r.Context().Err() != nil:
			return nil, context.Cause(r.Context())
		case !conn.used || conn.answered:
			return nil, err
		}
		// The server had closed the connection by the time that the request came.
	}
}

// CloseIdleConnections closes idle connections.
func (c *connections) CloseIdleConnections() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, h := range c.hosts {
		h.mu.Lock()
		for _, conn := range h.idle {
			conn.expiry.Stop()
			conn.Close()
		}
		h.idle = nil
		h.mu.Unlock()
	}
	c.proxied.CloseIdleConnections()
}

// trust sets which authorities certify servers. It is called before the first request.
func (c *connections) trust(config *tls.Config) {
	c.tls, c.proxied.TLSClientConfig = config.Clone(), config.Clone()
}

// host returns the host of a request.
func (c *connections) host(r *http.Request) (*host, error) {
	key := origin{r.URL.Scheme, r.URL.Host}
	c.mu.Lock()
	defer c.mu.Unlock()
	h := c.hosts[key]
	if h == nil {
		proxy, err := c.proxied.Proxy(r)
		if err != nil {
			return nil, err
		}
		h = &host{connections: c, origin: key, proxy: proxy != nil}
		c.hosts[key] = h
	}
	return h, nil
}

// take returns an idle connection, or a new one.
func (h *host) take(ctx context.Context) (*connection, error) {
	for {
		h.mu.Lock()
		n := len(h.idle) - 1
		if n < 0 {
			h.mu.Unlock()
			return h.connect(ctx)
		}
		conn := h.idle[n]
		h.idle[n], h.idle = nil, h.idle[:n]
		conn.expiry.Stop()
		h.mu.Unlock()
		if conn.quiet() {
			conn.used = true
			return conn, nil
		}
		conn.Close()
	}
}

// give keeps a connection for a later request.
func (h *host) give(conn *connection) {
	conn.since = time.Now()
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.idle) >= h.most {
		conn.Close()
		return
	}
	h.idle = append(h.idle, conn)
	if conn.expiry == nil {
		conn.expiry = time.AfterFunc(idleTime, func() { h.expire(conn) })
	} else {
		conn.expiry.Reset(idleTime)
	}
}

// expire closes a connection that has been idle for some time, unless it was just taken.
func (h *host) expire(conn *connection) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if i := slices.Index(h.idle, conn); i >= 0 && time.Since(conn.since) >= idleTime {
		h.idle = slices.Delete(h.idle, i, i+1)
		conn.Close()
	}
}

func (h *host) connect(ctx context.Context) (*connection, error) {
	address := url.URL{Host: h.origin.host}
	name, port := address.Hostname(), address.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[h.scheme]
	}
	raw, err := h.dial(ctx, "tcp", net.JoinHostPort(name, port))
	if err != nil {
		return nil, err
	}
	c := &connection{Conn: raw, home: h}
	if with, ok := raw.(syscall.Conn); ok {
		c.socket, _ = with.SyscallConn() // or nil
	}
	if h.scheme == "https" {
		config := h.tls.Clone()
		if config == nil {
			config = &tls.Config{}
		}
		if config.ServerName == "" {
			config.ServerName = name
		}
		secure := tls.Client(raw, config)
		within, cancel := context.WithTimeout(ctx, h.timeout)
		defer cancel()
		if err := secure.HandshakeContext(within); err != nil {
			raw.Close()
			return nil, err
		}
		c.Conn = secure
	}
	// A body bypasses the buffers and goes into the caller's memory, except for what comes with the
	// head.
	c.in, c.out = bufio.NewReaderSize(c, 1<<10), bufio.NewWriterSize(c.Conn, 1<<10)
	return c, nil
}

// A connection serves one request at a time.
type connection struct {
	net.Conn // with TLS, if the scheme requires it
	home     *host
	in       *bufio.Reader
	out      *bufio.Writer
	socket   syscall.RawConn // nil: none, or unknown
	left     int64           // bytes that may still come
	answered bool            // at least a byte came since the last request
	used     bool            // for an earlier request
	since    time.Time       // when it became idle
	expiry   *time.Timer     // nil: never idle before
}

// silent reports whether there is nothing to read, neither data nor its end, if that can be told.
func (c *connection) silent() bool {
	if c.socket == nil {
		return true
	}
	state := []unix.PollFd{{Events: unix.POLLIN | unix.POLLRDHUP}}
	err := c.socket.Control(func(fd uintptr) {
		state[0].Fd = int32(fd)
		if _, err := unix.Poll(state, 0); err != nil {
			state[0].Revents = unix.POLLERR
		}
	})
	return err == nil && state[0].Revents == 0
}

// quiet reports whether an idle connection can take a request. An unsolicited message of the
// server, such as that it has waited too long, would be taken for the answer. A connection used
// just now is not checked, which would take a system call.
func (c *connection) quiet() bool {
	idle := time.Since(c.since)
	return idle < briefly || idle < idleTime && c.silent()
}

// Read reads at most the bytes that may still come.
func (c *connection) Read(p []byte) (int, error) {
	if c.left == 0 {
		return 0, errors.New("the head of its answer is too long")
	}
	n, err := c.Conn.Read(p[:min(int64(len(p)), c.left)])
	c.left -= int64(n)
	c.answered = c.answered || n > 0
	return n, err
}

// exchange sends a request and returns the answer. Until its body ends, the end of the request's
// context ends the connection.
func (c *connection) exchange(r *http.Request) (answer *http.Response, err error) {
	b := &body{conn: c, stop: context.AfterFunc(r.Context(), func() { _ = c.SetDeadline(time.Unix(1, 0)) })}
	defer func() {
		if err != nil {
			b.end(false)
		}
	}()
	c.left, c.answered = longestHead, false
	if err := r.Write(c.out); err != nil {
		return nil, err
	}
	if err := c.out.Flush(); err != nil {
		return nil, err
	}
	for answer == nil || answer.StatusCode/100 == 1 {
		if answer, err = http.ReadResponse(c.in, r); err != nil {
			return nil, err
		}
	}
	c.left = math.MaxInt64
	b.keep = !answer.Close
	if answer.Body == http.NoBody {
		b.end(true)
		return answer, nil
	}
	b.Reader, answer.Body = answer.Body, b
	return answer, nil
}

// A body is the body of an answer. At its end, its connection can be used again.
type body struct {
	io.Reader
	conn *connection // nil: it has ended
	keep bool        // the server keeps the connection
	stop func() bool // ends watching the context; false: the context has ended the connection
}

func (b *body) Read(p []byte) (int, error) {
	if b.conn == nil {
		return 0, io.EOF
	}
	n, err := b.Reader.Read(p)
	if err != nil {
		b.end(err == io.EOF)
	}
	return n, err
}

// Close implements io.Closer. It does not wait for unread bytes.
func (b *body) Close() error {
	b.end(false)
	return nil
}

func (b *body) end(whole bool) {
	c := b.conn
	if c == nil {
		return
	}
	b.conn = nil
	if b.stop() && whole && b.keep && c.in.Buffered() == 0 {
		c.home.give(c)
	} else {
		c.Close()
	}
}
