package dataset

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// TestBandwidthOverASecond: no second delivers more than the rate plus what an idle storage may
// have read ahead, and over ten seconds readers get their full bandwidth, for any number of
// readers and any request size.
func TestBandwidthOverASecond(t *testing.T) {
	for _, rate := range []int64{10_000, 1 << 20, 150e6, 10e9} {
		for _, readers := range []int{1, 3, 50} {
			t.Run(fmt.Sprintf("%d/%d", rate, readers), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { overASecond(t, rate, readers) })
			})
		}
	}
}

func overASecond(t *testing.T, rate int64, readers int) {
	const seconds = 10
	l := newLimiter(rate)
	start := time.Now()
	type delivery struct {
		at    time.Duration
		bytes int64
	}
	var mu sync.Mutex
	var all []delivery
	var group sync.WaitGroup
	for r := range readers {
		group.Go(func() {
			for {
				n := l.piece - r%2*l.piece/3
				if err := l.take(context.Background(), n); err != nil {
					t.Error(err)
				}
				at := time.Since(start)
				if at >= seconds*time.Second {
					return
				}
				mu.Lock()
				all = append(all, delivery{at, int64(n)})
				mu.Unlock()
			}
		})
	}
	group.Wait()
	var total int64
	from, window := 0, int64(0)
	most := rate + int64(l.piece)
	for k, d := range all {
		total += d.bytes
		window += d.bytes
		for all[from].at <= d.at-time.Second {
			window -= all[from].bytes
			from++
		}
		// The reading of a piece that ends just inside the window began before the window.
		if window > most+int64(l.piece) {
			t.Fatalf("%d bytes in the second before %v (delivery %d), the rate is %d", window, d.at, k, rate)
		}
	}
	if want := rate * seconds; total > want+want/100+int64(l.piece) || total < want-want/100-int64(readers*l.piece) {
		t.Errorf("%d bytes in %d seconds at %d a second", total, seconds, rate)
	}
}

// TestIdleStorageIsNoCredit: a reader that comes after a pause gets no more than others.
func TestIdleStorageIsNoCredit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter(1e6)
		<-time.After(time.Hour) // on the test's fake clock
		start := time.Now()
		for range 100 {
			l.take(context.Background(), 10_000)
		}
		if d := time.Since(start); d < 980*time.Millisecond || d > time.Second {
			t.Errorf("a second's bytes took %v", d)
		}
	})
}

// TestStoppedWait: the end of its context releases a waiting reader, and its reserved bandwidth
// becomes available to others.
func TestStoppedWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter(1000)
		l.take(context.Background(), 1000)
		ctx, stop := context.WithCancel(context.Background())
		start := time.Now()
		var group sync.WaitGroup
		for range 10 {
			group.Go(func() {
				if err := l.take(ctx, 100_000); !errors.Is(err, ErrStopped) {
					t.Errorf("error %v", err)
				}
			})
		}
		synctest.Wait()
		stop()
		group.Wait()
		if d := time.Since(start); d > 0 {
			t.Errorf("it took %v", d)
		}
		if l.take(context.Background(), 1000); time.Since(start) > 1100*time.Millisecond {
			t.Errorf("who comes next waits %v", time.Since(start))
		}
	})
}

// TestLimitedReads: reading a dataset takes as long as all its bytes need, headers included,
// for all readers together; and a waiting read can be stopped.
func TestLimitedReads(t *testing.T) {
	for _, direct := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			const files, size, rate = 40, 50_000, 200_000
			p := newPlace(t)
			for i := range files {
				p.write(fmt.Sprintf("%02d.jpg", i), pattern(size))
			}
			p.how = Storage{Direct: direct, MaxBandwidth: rate}
			expect := func(what string, start time.Time, bytes int64) {
				want := time.Duration(bytes) * time.Second / rate
				if d := time.Since(start); d < want*95/100 || d > want*105/100 {
					t.Errorf("direct %t: %s took %v, not %v", direct, what, d, want)
				}
			}
			start := time.Now()
			d := p.open("")
			expect("the scan", start, files*firstProbe)

			start = time.Now()
			var group sync.WaitGroup
			for w := range 4 {
				group.Go(func() {
					buf := wholePages(1 << 16)
					for i := w; i < files; i += 4 {
						if _, err := d.Read(i, buf, nil); err != nil {
							t.Error(err)
						}
					}
				})
			}
			group.Wait()
			expect("an epoch", start, files*size)

			ctx, stop := context.WithCancel(context.Background())
			group.Go(func() {
				if _, _, err := d.Load(ctx, 0, nil, grow); !errors.Is(err, ErrStopped) {
					t.Errorf("a read that was called off: %v", err)
				}
			})
			synctest.Wait()
			stop()
			group.Wait()
		})
	}
}
