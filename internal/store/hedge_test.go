package store

import (
	"net/http"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

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
