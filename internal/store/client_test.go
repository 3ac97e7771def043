package store

import (
	"context"
	"errors"
	"net"
	"net/http"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/batchfs/batchfs/internal/testkit"
)

// TestCancel: a context ends a read wherever it is.
func TestCancel(t *testing.T) {
	for name, handler := range map[string]http.HandlerFunc{
		"while connecting":  nil,
		"before the answer": hang,
		"in its body": func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Etag", object.Version)
			w.Header().Set("Content-Range", "bytes 0-9/300000")
			w.WriteHeader(206)
			flush(w)
			hang(w, r)
		},
		"between tries": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Retry-After", "50")
			w.WriteHeader(503)
		},
	} {
		bubble(t, name, func(t *testing.T) {
			s := newWire(t, handler).open(t, "http://host/", Options{MaxRequests: 1})
			if handler == nil {
				s.pool.dial = func(ctx context.Context, _, _ string) (net.Conn, error) { return silent(ctx) }
			}
			errs, cancels := make(chan error), []func(){}
			for range 2 { // where requests hang, the second one waits for the first
				ctx, cancel := context.WithCancel(t.Context())
				cancels = append(cancels, cancel)
				go func() {
					_, err := s.ReadAt(ctx, object, make([]byte, 10), 0)
					errs <- err
				}()
				synctest.Wait()
			}
			start := time.Now()
			for _, cancel := range []func(){cancels[1], cancels[0]} {
				cancel()
				if err := <-errs; !errors.Is(err, context.Canceled) {
					t.Error(err)
				}
			}
			if d := time.Since(start); d > 0 {
				t.Errorf("after %v", d)
			}
		})
	}
}

// TestMaxRequests: there are never more requests at once.
func TestMaxRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		arrived, release := make(chan struct{}), make(chan struct{})
		w := newWire(t, func(w http.ResponseWriter, r *http.Request) {
			arrived <- struct{}{}
			<-release
			serve(w, r)
		})
		s := w.open(t, "http://host/", Options{MaxRequests: 3})
		errs := make(chan error)
		for i := range 10 {
			go func() { errs <- read(t, s, i, 10) }()
		}
		for range 3 {
			<-arrived
		}
		synctest.Wait()
		if n := w.requests.Load(); n != 3 {
			t.Errorf("%d requests at once", n)
		}
		for range 7 {
			release <- struct{}{}
			<-arrived
		}
		for range 3 {
			release <- struct{}{}
		}
		for range 10 {
			if err := <-errs; err != nil {
				t.Error(err)
			}
		}
	})
}

// TestHedge: a request that is slower than most is sent again, and the first one is not waited for.
func TestHedge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWire(t, func(w http.ResponseWriter, r *http.Request) {
			time.Sleep(10 * time.Millisecond) // of the bubble
			serve(w, r)
		})
		s := w.open(t, "http://host/", Options{MaxRequests: 320}) // and 10 hedges
		for range fewLatencies {
			testkit.Must(t, read(t, s, 0, 100))
		}
		fast, ended := w.handler, make(chan struct{}, 1000)
		w.handler = func(w2 http.ResponseWriter, r *http.Request) {
			if w.requests.Load() == fewLatencies+1 {
				hang(w2, r)
				ended <- struct{}{}
				return
			}
			fast(w2, r)
		}
		start := time.Now()
		testkit.Must(t, read(t, s, 50, 100))
		if d := time.Since(start); d < 27*time.Millisecond || d > 33*time.Millisecond {
			t.Errorf("the hedge answered after %v", d)
		}
		<-ended
		if stats := s.Stats(); stats.Hedges != 1 || stats.Requests != fewLatencies+2 || stats.Retries != 0 {
			t.Errorf("%+v", stats)
		}
		// Where all are slow, few are sent twice: 9 that are left, and 3 of 100.
		w.handler = hang
		for range 100 {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			if _, err := s.ReadAt(ctx, object, make([]byte, 10), 0); !errors.Is(err, context.DeadlineExceeded) {
				t.Error(err)
			}
			cancel()
		}
		if hedges := s.Stats().Hedges; hedges < 12 || hedges > 13 {
			t.Errorf("%d hedges", hedges)
		}
	})
}

// TestHedgeFails: the first request is waited for if only the second one fails.
func TestHedgeFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWire(t, serve)
		s := w.open(t, "http://host/", Options{})
		for range fewLatencies {
			s.latencies.add(time.Millisecond)
		}
		w.handler = func(answer http.ResponseWriter, r *http.Request) {
			if w.requests.Load() == 1 {
				time.Sleep(100 * time.Millisecond) // of the bubble
				serve(answer, r)
				return
			}
			answer.WriteHeader(503)
		}
		if err := read(t, s, 0, 100); err != nil || s.Stats().Hedges != 1 || s.Stats().Retries != 0 {
			t.Errorf("%v, %+v", err, s.Stats())
		}
	})
}

// TestAnswerBesideTheHedge: an answer that comes at the moment a second request is due is neither
// late nor lost, and data that does not come after it is noticed.
func TestAnswerBesideTheHedge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWire(t, serve)
		s := w.open(t, "http://host/", Options{})
		for range fewLatencies {
			s.latencies.add(time.Millisecond)
		}
		due := hedgeAfter * time.Duration(s.latencies.slow.Load())
		var fresh, stalls atomic.Bool
		w.handler = func(w http.ResponseWriter, r *http.Request) {
			time.Sleep(due) // of the bubble
			if fresh.CompareAndSwap(true, false) && stalls.Load() {
				half(hang)(w, r)
				return
			}
			serve(w, r)
		}
		for i := range 100 {
			fresh.Store(true)
			stalls.Store(i >= 50)
			before, start := s.Stats().Retries, time.Now()
			err := read(t, s, 0, 100_000)
			again, d := s.Stats().Retries-before, time.Since(start)
			if err != nil || again > int64(i/50) || again == 0 && d > 2*due {
				t.Fatalf("read %d: %v after %v and %d retries", i, err, d, again)
			}
		}
		if stats := s.Stats(); stats.Errors != 0 {
			t.Errorf("%+v", stats)
		}
	})
}
