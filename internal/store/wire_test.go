package store

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/batchfs/batchfs/internal/testkit"
)

// dialUnix connects to a socket, whatever the address.
func dialUnix(path string) func(ctx context.Context, network, address string) (net.Conn, error) {
	return func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", path)
	}
}

// A wire is a network in memory, with one server that has all addresses. In a bubble of synctest,
// waiting for it takes no time.
type wire struct {
	connections chan net.Conn
	closed      chan struct{}
	server      *http.Server
	requests    atomic.Int64
	serving     sync.WaitGroup // of connections
	handler     http.HandlerFunc
}

// newWire serves until the end of the test.
func newWire(t *testing.T, handler http.HandlerFunc) *wire {
	w := &wire{connections: make(chan net.Conn), closed: make(chan struct{}), handler: handler}
	w.server = &http.Server{ErrorLog: slog.NewLogLogger(slog.DiscardHandler, 0), Handler: http.HandlerFunc(func(answer http.ResponseWriter, r *http.Request) {
		w.requests.Add(1)
		w.handler(answer, r)
	})}
	w.server.ConnState = func(_ net.Conn, state http.ConnState) {
		switch state {
		case http.StateNew:
			w.serving.Add(1)
		case http.StateClosed, http.StateHijacked:
			w.serving.Done()
		}
	}
	done := make(chan struct{})
	go func() { defer close(done); _ = w.server.Serve(w) }()
	t.Cleanup(func() { w.server.Close(); <-done; w.serving.Wait() })
	return w
}

// Accept implements net.Listener.
func (w *wire) Accept() (net.Conn, error) {
	select {
	case c := <-w.connections:
		return c, nil
	case <-w.closed:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener.
func (w *wire) Close() error   { close(w.closed); return nil }
func (w *wire) Addr() net.Addr { return &net.UnixAddr{Name: "wire"} }

func (w *wire) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	ours, theirs := net.Pipe()
	select {
	case w.connections <- theirs:
		return ours, nil
	case <-w.closed:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// open opens a URL on the wire until the end of the test.
func (w *wire) open(t *testing.T, url string, o Options) *site {
	t.Helper()
	o.dial = w.dial
	s, _, err := Open(t.Context(), url, o)
	testkit.Must(t, err)
	t.Cleanup(func() { s.Close() })
	return s.(*site)
}

// content is what all objects of the tests have in them.
var content = func() []byte {
	p := make([]byte, 300_000)
	for i := range p {
		p[i] = byte(i * i >> 8)
	}
	return p
}()

var object = Object{Name: "a", Size: int64(len(content)), Version: `"v1"`}

// serve answers as a good server does.
func serve(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Etag", object.Version)
	if r.Header.Get("Accept-Encoding") != "identity" {
		w.Header().Set("Content-Encoding", "gzip")
	}
	if match := r.Header.Get("If-Match"); match != "" && match != object.Version {
		w.WriteHeader(http.StatusPreconditionFailed)
		return
	}
	first, last := asked(r)
	w.Header().Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", first, last, len(content)))
	w.Header().Set("Content-Length", strconv.Itoa(last-first+1))
	w.WriteHeader(http.StatusPartialContent)
	_, _ = w.Write(content[first : last+1])
}

// asked returns the range that a request is for.
func asked(r *http.Request) (first, last int) {
	if _, err := fmt.Sscanf(r.Header.Get("Range"), "bytes=%d-%d", &first, &last); err != nil {
		panic(err)
	}
	return first, last
}

// read reads a part of the object and checks its bytes.
func read(t *testing.T, s Store, first, length int) error {
	t.Helper()
	p := make([]byte, length)
	n, err := s.ReadAt(t.Context(), object, p, int64(first))
	if err == nil && (n != length || string(p) != string(content[first:first+length])) {
		t.Errorf("%d bytes at %d: wrong bytes", length, first)
	}
	if err != nil && n != 0 {
		t.Errorf("%d bytes and error %v", n, err)
	}
	return err
}

// bubble runs a test in a bubble of synctest.
func bubble(t *testing.T, name string, test func(t *testing.T)) {
	t.Run(name, func(t *testing.T) { synctest.Test(t, test) })
}

// logged returns a logger, and what it has written so far.
func logged() (*slog.Logger, *text) {
	var t text
	return slog.New(slog.NewTextHandler(&t, &slog.HandlerOptions{Level: slog.LevelDebug})), &t
}

// A text is written and read by several goroutines.
type text struct {
	mu sync.Mutex
	b  strings.Builder
}

func (t *text) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.b.Write(p)
}

func (t *text) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.b.String()
}

// hang holds a request until its connection ends.
func hang(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }

// abort ends a connection, after some of an answer if there is any.
func abort() { panic(http.ErrAbortHandler) }

// flush sends what was written so far.
func flush(w http.ResponseWriter) { w.(http.Flusher).Flush() }
