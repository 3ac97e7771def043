package store

import (
	"context"
	"errors"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/batchfs/batchfs/internal/testkit"
)

// readAll has many readers read until a time is over, and returns how many reads they made.
func readAll(t *testing.T, s Store, readers int, lasts time.Duration) (reads int) {
	var (
		all   sync.WaitGroup
		mu    sync.Mutex
		until = time.Now().Add(lasts)
	)
	for i := range readers {
		all.Go(func() {
			for n := 0; time.Now().Before(until); n++ {
				if err := read(t, s, (i*1000+n)%200_000, 100); err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				reads++
				mu.Unlock()
			}
		})
	}
	all.Wait()
	return reads
}

// takes is a server that takes some time for an answer.
func takes(d time.Duration, then http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		time.Sleep(d) // of the bubble
		then(w, r)
	}
}

// TestOutages: no read fails because its store was away for up to a minute, whatever the store says
// meanwhile. It gets few requests during that time. Reads continue soon after.
func TestOutages(t *testing.T) {
	const readers, before = 64, 2 * time.Second
	for name, fault := range map[string]http.HandlerFunc{
		"500": status(500), "503": status(503), "429": status(429), "502 after a while": takes(3*time.Second, status(502)),
		"429 for seconds": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Retry-After", "3")
			w.WriteHeader(429)
		},
		"resets": func(http.ResponseWriter, *http.Request) { abort() }, "silence": hang,
		"refused": func(http.ResponseWriter, *http.Request) { abort() }, "unknown": func(http.ResponseWriter, *http.Request) { abort() },
	} {
		for _, lasts := range []time.Duration{1500 * time.Millisecond, time.Minute} {
			bubble(t, name+" for "+lasts.String(), func(t *testing.T) {
				late := 4 * time.Second
				if name == "silence" { // the request that asks may take as long as it can
					late += 20 * time.Second
				}
				start := time.Now()
				isAway := func() bool { d := time.Since(start); return d >= before && d < before+lasts }
				var mu sync.Mutex
				asked, back := 0, time.Duration(0)
				healthy := takes(time.Second, serve)
				w := newWire(t, func(w http.ResponseWriter, r *http.Request) {
					if isAway() {
						mu.Lock()
						asked++
						mu.Unlock()
						fault(w, r)
						return
					}
					healthy(w, r)
					mu.Lock()
					if d := time.Since(start) - before - lasts; d > 0 && back == 0 {
						back = d
					}
					mu.Unlock()
				})
				log, text := logged()
				s := w.open(t, "http://host/", Options{MaxRequests: readers, Logger: log})
				if name == "refused" || name == "unknown" {
					s.pool.dial = func(ctx context.Context, network, address string) (net.Conn, error) {
						switch {
						case !isAway():
							return w.dial(ctx, network, address)
						case name == "unknown":
							return nil, &net.DNSError{Err: "no such host", Name: address, IsNotFound: true}
						}
						return nil, &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}
					}
				}
				readAll(t, s, readers, before+lasts+late+6*time.Second)
				if most := 3*readers + 2*int(lasts/time.Second); asked > most {
					t.Errorf("the store was asked %d times while it was away", asked)
				}
				if back > late {
					t.Errorf("the store is used again after %v", back)
				}
				stats := s.Stats()
				if stats.Errors != 0 || stats.Waiting != 0 || stats.Away > (lasts+22*time.Second).Seconds() || lasts == time.Minute && stats.Away < 30 {
					t.Errorf("%+v", stats)
				}
				if lasts >= 15*time.Second {
					if stats.Away < lasts.Seconds()/2 {
						t.Errorf("it was away for %v s", stats.Away)
					}
					for _, want := range []string{"the store does not answer: what needs it waits", "the store answers again"} {
						if n := strings.Count(text.String(), want); n != 1 {
							t.Errorf("the log says %d times: %s", n, want)
						}
					}
				}
			})
		}
	}
}

// TestLongOutage: calls fail after the time that they wait, and a store that comes back later is
// used again.
func TestLongOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWire(t, serve)
		s := w.open(t, "http://host/", Options{Wait: time.Minute})
		testkit.Must(t, read(t, s, 0, 10))
		w.handler = status(500)
		var all sync.WaitGroup
		start := time.Now()
		for range 100 {
			all.Go(func() {
				err := read(t, s, 0, 10)
				if d := time.Since(start); !errors.Is(err, ErrBusy) || !strings.Contains(err.Error(), "500, for 1m") || d < 58*time.Second || d > 63*time.Second {
					t.Errorf("%v after %v", err, d)
				}
			})
		}
		synctest.Wait()
		time.Sleep(30 * time.Second)
		if stats := s.Stats(); stats.Waiting < 90 || stats.Away < 29 || stats.Errors != 0 {
			t.Errorf("meanwhile: %+v", stats)
		}
		all.Wait()
		if n := s.Stats().Requests; n > 700 {
			t.Errorf("%d requests", n)
		}
		w.handler = serve
		if err := read(t, s, 0, 10); err != nil {
			t.Error(err)
		}
		if stats := s.Stats(); stats.Waiting != 0 || stats.Errors != 100 {
			t.Errorf("in the end: %+v", stats)
		}
	})
}

// TestNoWait: an outage is not waited for if the options say so, and only briefly if the store has
// never answered.
func TestNoWait(t *testing.T) {
	for _, test := range []struct {
		wait     time.Duration
		answers  bool
		from, to time.Duration
	}{{-1, false, 0, 0}, {-1, true, 0, 0}, {0, false, 13 * time.Second, 18 * time.Second}, {0, true, 295 * time.Second, 305 * time.Second}} {
		bubble(t, "", func(t *testing.T) {
			w := newWire(t, func(http.ResponseWriter, *http.Request) { abort() })
			s := w.open(t, "http://host/", Options{Wait: test.wait})
			if test.answers {
				w.handler = status(404)
				if _, err := s.Stat(t.Context(), "a"); !errors.Is(err, ErrNotExist) || s.Stats().Errors != 0 {
					t.Fatalf("%v, %+v", err, s.Stats())
				}
				w.handler = func(http.ResponseWriter, *http.Request) { abort() }
			}
			start := time.Now()
			_, err := s.Stat(t.Context(), "a")
			if d := time.Since(start); !errors.Is(err, ErrAway) || d < test.from || d > test.to {
				t.Errorf("%+v: %v after %v", test, err, d)
			}
		})
	}
}

// TestWhatDoesNotWait: answers that will not change soon end a call at once, and an outage.
func TestWhatDoesNotWait(t *testing.T) {
	for _, code := range []int{401, 403, 404, 412} {
		bubble(t, strconv.Itoa(code), func(t *testing.T) {
			w := newWire(t, status(code))
			s := w.open(t, "http://host/", Options{})
			start := time.Now()
			if err := read(t, s, 0, 10); err == nil || time.Since(start) > 0 {
				t.Errorf("%v after %v", err, time.Since(start))
			}
			w.handler = status(500)
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			if _, err := s.ReadAt(ctx, object, make([]byte, 1), 0); !errors.Is(err, context.DeadlineExceeded) || s.Stats().Away == 0 {
				t.Errorf("%v, %+v", err, s.Stats())
			}
			w.handler = status(code)
			if err := read(t, s, 0, 10); err == nil {
				t.Error("no error")
			}
			w.handler = serve
			start = time.Now()
			if err := read(t, s, 0, 10); err != nil || time.Since(start) > 0 {
				t.Errorf("%v after %v", err, time.Since(start))
			}
		})
	}
}

// TestOneObjectFails: an object that the store cannot serve ends only its own reads, after a while.
func TestOneObjectFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newWire(t, takes(100*time.Millisecond, func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/bad" {
				w.WriteHeader(500)
				return
			}
			serve(w, r)
		})).open(t, "http://host/", Options{})
		bad := object
		bad.Name = "bad"
		start, failed := time.Now(), make(chan error)
		go func() {
			_, err := s.ReadAt(t.Context(), bad, make([]byte, 10), 0)
			if d := time.Since(start); d < 20*time.Second || d > time.Minute {
				t.Errorf("it takes %v", d)
			}
			failed <- err
		}()
		if reads := readAll(t, s, 4, time.Minute); reads < 4*10*59 {
			t.Errorf("%d reads of others", reads)
		}
		if err := <-failed; !errors.Is(err, ErrBusy) || !strings.Contains(err.Error(), "http://host/bad: ") || !strings.Contains(err.Error(), "500, for ") {
			t.Error(err)
		}
	})
}

// TestHungRequests: requests that the store forgets cost their readers little.
func TestHungRequests(t *testing.T) {
	for name, fault := range map[string]http.HandlerFunc{"before the answer": hang, "within the answer": half(hang)} {
		bubble(t, name, func(t *testing.T) {
			w := newWire(t, nil)
			healthy := takes(20*time.Millisecond, serve)
			w.handler = func(answer http.ResponseWriter, r *http.Request) {
				if n := w.requests.Load(); n > 500 && n%50 == 0 {
					fault(answer, r)
					return
				}
				healthy(answer, r)
			}
			s := w.open(t, "http://host/", Options{MaxRequests: 64})
			const readers, lasts = 16, 10 * time.Second
			reads := readAll(t, s, readers, lasts)
			if most := readers * int(lasts/(20*time.Millisecond)); reads < most*6/10 {
				t.Errorf("%d reads of %d", reads, most)
			}
			if stats := s.Stats(); stats.Errors != 0 || stats.Requests > int64(reads)*11/10 {
				t.Errorf("%+v", stats)
			}
		})
	}
}
