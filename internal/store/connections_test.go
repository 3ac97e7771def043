package store

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/batchfs/batchfs/internal/testkit"
)

// dialed counts the connections of a site.
func dialed(s *site) *atomic.Int64 {
	n, dial := new(atomic.Int64), s.pool.dial
	s.pool.dial = func(ctx context.Context, network, address string) (net.Conn, error) {
		n.Add(1)
		return dial(ctx, network, address)
	}
	return n
}

// TestConnectionsAreKept: a connection is kept for the next request, for some time, and not once
// the site is closed.
func TestConnectionsAreKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWire(t, serve)
		s := w.open(t, "http://host/", Options{})
		n := dialed(s)
		for i, wait := range []time.Duration{0, time.Millisecond, idleTime - time.Second, idleTime + time.Second, 0} {
			time.Sleep(wait) // of the bubble
			testkit.Must(t, read(t, s, i, 1000))
			if want := int64(1 + i/3); n.Load() != want {
				t.Errorf("read %d, after %v: %d connections, not %d", i, wait, n.Load(), want)
			}
		}
		s.Close()
		w.serving.Wait()
		if err := read(t, s, 0, 10); err != nil || n.Load() != 3 || s.Stats().Retries != 0 {
			t.Errorf("closed: %v, %d connections, %+v", err, n.Load(), s.Stats())
		}
	})
}

// TestIdleConnectionsAreClosed: idle connections are closed even if no request follows, the oldest
// first.
func TestIdleConnectionsAreClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var open atomic.Int64
		both := make(chan struct{})
		w := newWire(t, func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("Range") == "bytes=1-10" {
				both <- struct{}{}
			}
			serve(w, r)
		})
		state := w.server.ConnState
		w.server.ConnState = func(c net.Conn, now http.ConnState) {
			open.Add(map[http.ConnState]int64{http.StateNew: 1, http.StateClosed: -1}[now])
			state(c, now)
		}
		s := w.open(t, "http://host/", Options{})
		done := make(chan error)
		go func() { done <- read(t, s, 1, 10) }()
		synctest.Wait()
		testkit.Must(t, read(t, s, 2, 10))
		time.Sleep(time.Second)
		<-both
		testkit.Must(t, <-done)
		for _, step := range []struct {
			wait time.Duration
			open int64
			read bool // one of them is used again
		}{
			{wait: idleTime - 2*time.Second, open: 2}, {wait: 1500 * time.Millisecond, open: 1, read: true},
			{wait: idleTime - time.Second, open: 1}, {wait: 2 * time.Second, open: 0},
		} {
			time.Sleep(step.wait)
			synctest.Wait()
			if step.read {
				testkit.Must(t, read(t, s, 2, 10))
			}
			if open.Load() != step.open {
				t.Errorf("%d open connections, not %d", open.Load(), step.open)
			}
		}
	})
}

// talk serves connections of TCP: each of the answers on one of them, after a request. Then it ends
// the connection.
func talk(t *testing.T, answers ...[]string) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	testkit.Must(t, err)
	t.Cleanup(func() { l.Close() })
	go func() {
		for _, list := range answers {
			c, err := l.Accept()
			if err != nil {
				return
			}
			in := bufio.NewReader(c)
			for _, answer := range list {
				if _, err := http.ReadRequest(in); err != nil {
					break
				}
				_, _ = c.Write([]byte(answer))
			}
			c.Close()
		}
	}()
	return "http://" + l.Addr().String() + "/"
}

// answered is a good answer to a request for the first bytes of the object.
func answered(n int) string {
	return fmt.Sprintf("HTTP/1.1 206 Partial Content\r\nEtag: %s\r\nContent-Range: bytes 0-%d/%d\r\nContent-Length: %d\r\n\r\n%s",
		object.Version, n-1, len(content), n, content[:n])
}

// TestConnectionEndsWhileIdle: the next request takes another connection, which does not count as a
// retry.
func TestConnectionEndsWhileIdle(t *testing.T) {
	const late = "HTTP/1.1 408 Request Timeout\r\nContent-Length: 0\r\n\r\n"
	for name, test := range map[string]struct {
		first string
		idle  time.Duration
	}{
		"a moment":                       {answered(10), 0},
		"some time":                      {answered(10), briefly},
		"some time, and is told why":     {answered(10) + late, briefly},
		"a moment, with a body unlike":   {answered(5000), 0},
		"a moment, after an information": {"HTTP/1.1 103 Early Hints\r\nLink: <x>\r\n\r\n" + answered(10), 0},
	} {
		t.Run(name, func(t *testing.T) {
			n := 10
			if strings.Contains(test.first, "0-4999/") {
				n = 5000
			}
			s, _, err := Open(t.Context(), talk(t, []string{test.first}, []string{answered(n)}), Options{})
			testkit.Must(t, err)
			defer s.Close()
			testkit.Must(t, read(t, s, 0, n))
			for _, h := range s.(*site).pool.hosts {
				for _, c := range h.idle {
					c.since = c.since.Add(-test.idle)
					for c.silent() { // until the end has come
						time.Sleep(time.Millisecond)
					}
				}
			}
			if err := read(t, s, 0, n); err != nil || s.Stats().Retries != 0 {
				t.Errorf("%v, %+v", err, s.Stats())
			}
		})
	}
}

// TestEndlessHead: an answer without an end before its body takes no more than some memory.
func TestEndlessHead(t *testing.T) {
	long := "HTTP/1.1 206 Partial Content\r\n" + strings.Repeat("X: "+strings.Repeat("y", 1000)+"\r\n", longestHead/1000)
	s, _, err := Open(t.Context(), talk(t, []string{long + "\r\n"}), Options{Wait: -1})
	testkit.Must(t, err)
	defer s.Close()
	if err := read(t, s, 0, 10); !errors.Is(err, ErrAway) || !strings.Contains(err.Error(), "the head of its answer is too long") {
		t.Error(err)
	}
}

// TestEndedReadKeepsNoConnection: the rest of an abandoned answer is not taken for another answer.
func TestEndedReadKeepsNoConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWire(t, nil)
		s := w.open(t, "http://host/", Options{})
		n := dialed(s)
		ctx, cancel := context.WithCancelCause(t.Context())
		w.handler = func(answer http.ResponseWriter, r *http.Request) {
			answer.Header().Set("Content-Length", "1000")
			answer.Header().Set("Content-Range", fmt.Sprintf("bytes 0-999/%d", len(content)))
			answer.Header().Set("Etag", object.Version)
			answer.WriteHeader(http.StatusPartialContent)
			_, _ = answer.Write(content[:500])
			flush(answer)
			cancel(errors.New("enough"))
		}
		if _, err := s.ReadAt(ctx, object, make([]byte, 1000), 0); err == nil || !strings.HasSuffix(err.Error(), ": enough") {
			t.Error(err)
		}
		w.handler = serve
		if err := read(t, s, 0, 1000); err != nil || n.Load() != 2 {
			t.Errorf("%v, %d connections", err, n.Load())
		}
	})
}

// TestProxy: requests that must use a proxy do, and their connection is kept, too.
func TestProxy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWire(t, func(w http.ResponseWriter, r *http.Request) {
			if r.RequestURI != "http://host/a" {
				t.Errorf("a request for %q", r.RequestURI)
			}
			serve(w, r)
		})
		s := w.open(t, "http://host/", Options{})
		var dials []string
		s.pool.proxied.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
			dials = append(dials, address)
			return w.dial(ctx, network, address)
		}
		s.pool.proxied.Proxy = func(*http.Request) (*url.URL, error) { return url.Parse("http://proxy:3128") }
		for range 2 {
			if err := read(t, s, 0, 1000); err != nil {
				t.Error(err)
			}
		}
		if fmt.Sprint(dials) != "[proxy:3128]" {
			t.Errorf("connections to %s", dials)
		}
		s.pool.proxied.Proxy = func(*http.Request) (*url.URL, error) { return nil, errors.New("no URL of a proxy") }
		other := w.open(t, "http://other/", Options{Wait: -1})
		other.pool.proxied.Proxy = s.pool.proxied.Proxy
		if err := read(t, other, 0, 10); !errors.Is(err, ErrAway) || !strings.Contains(err.Error(), "no URL of a proxy") {
			t.Error(err)
		}
	})
}
