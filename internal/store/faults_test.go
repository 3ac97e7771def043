package store

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/batchfs/batchfs/internal/testkit"
)

// half answers with half of what it is asked for, and then does something else.
func half(then http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		first, last := asked(r)
		w.Header().Set("Etag", object.Version)
		w.Header().Set("Content-Range", strings.Replace(r.Header.Get("Range"), "=", " ", 1)+"/300000")
		w.WriteHeader(http.StatusPartialContent)
		_, _ = w.Write(content[first : (first+last)/2])
		flush(w)
		then(w, r)
	}
}

// lengths answers with so many bytes, and says that they are so many.
func lengths(said, sent int) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		conn, buffer, err := w.(http.Hijacker).Hijack()
		if err != nil {
			panic(err)
		}
		defer conn.Close()
		first, last := asked(r)
		fmt.Fprintf(buffer, "HTTP/1.1 206 Partial Content\r\nEtag: %s\r\nContent-Range: bytes %d-%d/%d\r\nContent-Length: %d\r\n\r\n",
			object.Version, first, last, len(content), said)
		_, _ = buffer.Write(content[first : first+sent])
		_ = buffer.Flush()
	}
}

// after answers that requests should be sent again later.
func after(status int, text func() string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", text())
		w.WriteHeader(status)
	}
}

// fails is a network without a way.
func fails(err error) func(context.Context) (net.Conn, error) {
	return func(context.Context) (net.Conn, error) { return nil, err }
}

// says is a server that answers with a text, one byte each second, and then waits.
func says(text string) func(context.Context) (net.Conn, error) {
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

// silent is a network that never answers.
func silent(ctx context.Context) (net.Conn, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

// TestPassingFaults: after a fault of the first answer or of the first connection, another try gets
// the right bytes.
func TestPassingFaults(t *testing.T) {
	const timeout = 20 * time.Second
	for name, test := range map[string]struct {
		fault    http.HandlerFunc
		dial     func(context.Context) (net.Conn, error)
		from, to time.Duration // how long it takes to pass, but for a tenth of a second
		rest     bool          // only the rest is asked for again
	}{
		"500":             {fault: status(500)},
		"503":             {fault: status(503)},
		"504":             {fault: status(504)},
		"429 for seconds": {fault: after(429, func() string { return "7" }), from: 7 * time.Second, to: 7 * time.Second},
		"503 until a time": {fault: after(503, func() string { return time.Now().Add(30 * time.Second).UTC().Format(http.TimeFormat) }),
			from: 29 * time.Second, to: 30 * time.Second},
		"a code":                 {fault: refuse(400, "RequestTimeout")},
		"no answer":              {fault: func(http.ResponseWriter, *http.Request) { abort() }},
		"silence":                {fault: hang, from: timeout, to: timeout},
		"a reset after half":     {fault: half(func(http.ResponseWriter, *http.Request) { abort() }), rest: true},
		"an end after half":      {fault: half(func(http.ResponseWriter, *http.Request) {}), rest: true},
		"silence after half":     {fault: half(hang), from: timeout, to: timeout, rest: true},
		"shorter than the range": {fault: lengths(400, 400), rest: true},
		"shorter than it says":   {fault: lengths(200_000, 400), rest: true},
		"nothing":                {fault: lengths(0, 0)},
		"a trickle after half": {fault: half(func(w http.ResponseWriter, r *http.Request) {
			first, last := asked(r)
			for i := (first + last) / 2; i < last && r.Context().Err() == nil; i++ {
				_, _ = w.Write(content[i : i+1])
				flush(w)
				time.Sleep(time.Second) // of the bubble
			}
		}), from: timeout, to: timeout, rest: true},

		"names cannot be looked up now": {dial: fails(&net.DNSError{Err: "server misbehaving", Name: "host", IsTemporary: true})},
		"looking up takes too long":     {dial: fails(&net.DNSError{Err: "i/o timeout", Name: "host", IsTimeout: true})},
		"nobody listens":                {dial: fails(&net.OpError{Op: "dial", Err: syscall.ECONNREFUSED})},
		"no way there":                  {dial: fails(&net.OpError{Op: "dial", Err: syscall.ENETUNREACH})},
		"no connection":                 {dial: silent, from: timeout, to: timeout},
		"headers that trickle":          {dial: says("HTTP/1.1 206 Partial Content\r\nContent-Length: 10\r\n\r\n"), from: timeout, to: timeout},
		"no HTTP":                       {dial: says("hello\r\n"), to: timeout},
	} {
		bubble(t, name, func(t *testing.T) {
			w := newWire(t, nil)
			var tries, dials atomic.Int64
			again := ""
			w.handler = func(answer http.ResponseWriter, r *http.Request) {
				if tries.Add(1) == 1 && test.fault != nil {
					test.fault(answer, r)
					return
				}
				again = r.Header.Get("Range")
				serve(answer, r)
			}
			s := w.open(t, "http://host/", Options{})
			s.pool.dial = func(ctx context.Context, network, address string) (net.Conn, error) {
				if dials.Add(1) == 1 && test.dial != nil {
					return test.dial(ctx)
				}
				return w.dial(ctx, network, address)
			}
			start := time.Now()
			testkit.Must(t, read(t, s, 1000, 200_000))
			if d := time.Since(start); d < test.from || d > test.to+100*time.Millisecond {
				t.Errorf("it took %v", d)
			}
			if rest := again != "bytes=1000-200999"; rest != test.rest {
				t.Errorf("asked again for %s", again)
			}
			if stats := s.Stats(); stats.Requests != 2 || stats.Retries != 1 || stats.Errors != 0 || stats.Bytes < 200_000 || test.dial != nil && dials.Load() != 2 {
				t.Errorf("%+v, %d connections", stats, dials.Load())
			}
		})
	}
}

// TestHealthyReadsGoOn: reads of some objects that hang, fail or are slow neither delay reads of
// others nor make them fail.
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
