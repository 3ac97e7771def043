package store

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// TestPassingConnectionFaults: what goes wrong before there is a request to answer is tried again,
// too.
func TestPassingConnectionFaults(t *testing.T) {
	fails := func(err error) func(context.Context) (net.Conn, error) {
		return func(context.Context) (net.Conn, error) { return nil, err }
	}
	// says is a server that answers with a text, one byte each second, and then waits.
	says := func(text string) func(context.Context) (net.Conn, error) {
		return func(context.Context) (net.Conn, error) {
			ours, theirs := net.Pipe()
			gone := make(chan struct{})
			go func() {
				_, _ = theirs.Read(make([]byte, 4<<10)) // the request
				go func() { defer close(gone); _, _ = io.Copy(io.Discard, theirs) }()
				for i := range len(text) {
					_, _ = theirs.Write([]byte(text[i : i+1]))
					select {
					case <-time.After(time.Second): // of the bubble
					case <-gone:
						return
					}
				}
			}()
			return ours, nil
		}
	}
	for name, test := range map[string]struct {
		first    func(context.Context) (net.Conn, error)
		from, to time.Duration // how long it takes to pass
	}{
		"names cannot be looked up now": {fails(&net.DNSError{Err: "server misbehaving", Name: "host", IsTemporary: true}), 0, 100 * time.Millisecond},
		"looking up takes too long":     {fails(&net.DNSError{Err: "i/o timeout", Name: "host", IsTimeout: true}), 0, 100 * time.Millisecond},
		"nobody listens":                {fails(&net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}), 0, 100 * time.Millisecond},
		"no way there":                  {fails(&net.OpError{Op: "dial", Err: syscall.ENETUNREACH}), 0, 100 * time.Millisecond},
		"no connection": {func(ctx context.Context) (net.Conn, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}, 20 * time.Second, 20100 * time.Millisecond},
		"headers that trickle": {says("HTTP/1.1 206 Partial Content\r\nContent-Length: 10\r\n\r\n"), 20 * time.Second, 20100 * time.Millisecond},
		"no HTTP":              {says("hello\r\n"), 0, 20100 * time.Millisecond},
	} {
		bubble(t, name, func(t *testing.T) {
			w := newWire(t, serve)
			s := w.open(t, "http://host/", Options{})
			var dials atomic.Int64
			s.pool.dial = func(ctx context.Context, network, address string) (net.Conn, error) {
				if dials.Add(1) == 1 {
					return test.first(ctx)
				}
				return w.dial(ctx, network, address)
			}
			start := time.Now()
			if err := read(t, s, 0, 1000); err != nil {
				t.Fatal(err)
			}
			if d := time.Since(start); d < test.from || d > test.to || dials.Load() != 2 || s.Stats().Retries != 1 {
				t.Errorf("after %v and %d connections, %+v", d, dials.Load(), s.Stats())
			}
		})
	}
}

// TestWrongLengths: an answer that is shorter or longer than it says, or says other lengths than
// the range has.
func TestWrongLengths(t *testing.T) {
	lengths := func(said, sent int) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			conn, buffer, err := w.(http.Hijacker).Hijack()
			if err != nil {
				panic(err)
			}
			defer conn.Close()
			first, last := asked(r)
			fmt.Fprintf(buffer, "HTTP/1.1 206 Partial Content\r\nEtag: %s\r\nContent-Range: bytes %d-%d/%d\r\nContent-Length: %d\r\n\r\n", object.Version, first, last, len(content), said)
			_, _ = buffer.Write(content[first : first+sent])
			_ = buffer.Flush()
		}
	}
	for name, test := range map[string]struct {
		answer http.HandlerFunc
		kind   error // nil: it passes
	}{
		"shorter than the range":   {lengths(400, 400), nil},
		"shorter than it says":     {lengths(1000, 400), nil},
		"longer than the range":    {lengths(1500, 1500), errNoRange},
		"says more than the range": {lengths(1500, 1000), nil},
		"nothing":                  {lengths(0, 0), nil},
	} {
		bubble(t, name, func(t *testing.T) {
			w := newWire(t, nil)
			w.handler = func(answer http.ResponseWriter, r *http.Request) {
				if w.requests.Load() == 1 {
					test.answer(answer, r)
					return
				}
				serve(answer, r)
			}
			s := w.open(t, "http://host/", Options{})
			if err := read(t, s, 100, 1000); !errors.Is(err, test.kind) {
				t.Errorf("%v, not %v", err, test.kind)
			}
		})
	}
}

// TestStatAndListTryAgain: not only reads get over faults.
func TestStatAndListTryAgain(t *testing.T) {
	for name, fault := range map[string]http.HandlerFunc{
		"500": status(500), "503": status(503), "429": status(429), "reset": func(http.ResponseWriter, *http.Request) { abort() }, "silence": hang,
	} {
		bubble(t, name, func(t *testing.T) {
			w := newWire(t, nil)
			w.handler = func(answer http.ResponseWriter, r *http.Request) {
				switch {
				case w.requests.Load()%2 == 1:
					fault(answer, r)
				case r.URL.Query().Has("list-type"):
					_, _ = io.WriteString(answer, s3List("", "a"))
				default:
					serve(answer, r)
				}
			}
			s := w.open(t, "gs://bucket/", Options{Endpoint: "http://host", Anonymous: true})
			if o, err := s.Stat(t.Context(), "a"); err != nil || o.Size != object.Size {
				t.Errorf("%+v, %v", o, err)
			}
			if got, err := names(s, ""); err != nil || got == "" {
				t.Errorf("%s, %v", got, err)
			}
			if n := w.requests.Load(); n != 4 { // one of them, perhaps, sent again by Go itself
				t.Errorf("%d requests", n)
			}
		})
	}
}

// TestHealthyReadsGoOn: reads of some objects that hang, fail or are slow neither delay nor fail
// those of others.
func TestHealthyReadsGoOn(t *testing.T) {
	for name, fault := range map[string]http.HandlerFunc{
		"silence": hang, "500": status(500), "403": status(403), "404": status(404), "reset": func(http.ResponseWriter, *http.Request) { abort() },
		"latency": func(w http.ResponseWriter, r *http.Request) {
			time.Sleep(15 * time.Second) // of the bubble; less than the timeout
			serve(w, r)
		},
	} {
		bubble(t, name, func(t *testing.T) {
			w := newWire(t, func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path == "/bad" {
					fault(w, r)
					return
				}
				serve(w, r)
			})
			s := w.open(t, "http://host/", Options{MaxRequests: 4})
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan error)
			bad := object
			bad.Name = "bad"
			for range 3 {
				go func() {
					_, err := s.ReadAt(ctx, bad, make([]byte, 10), 0)
					ended <- err
				}()
			}
			start := time.Now()
			for i := range 200 {
				if err := read(t, s, i, 1000); err != nil {
					t.Error(err)
				}
			}
			if d := time.Since(start); d > 0 {
				t.Errorf("they took %v", d)
			}
			if name != "latency" {
				cancel()
			}
			for range 3 {
				if err := <-ended; (err == nil) != (name == "latency") {
					t.Errorf("the others: %v", err)
				}
			}
			cancel()
		})
	}
}

// TestCancelConnecting: a context ends a read that has no connection yet.
func TestCancelConnecting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newWire(t, serve).open(t, "http://host/", Options{})
		s.pool.dial = func(ctx context.Context, _, _ string) (net.Conn, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}
		ctx, cancel := context.WithCancel(t.Context())
		start := time.Now()
		time.AfterFunc(time.Second, cancel) // of the bubble
		if _, err := s.ReadAt(ctx, object, make([]byte, 10), 0); !errors.Is(err, context.Canceled) || time.Since(start) > time.Second {
			t.Errorf("%v after %v", err, time.Since(start))
		}
	})
}
