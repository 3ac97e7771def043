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

// TestLimitedReads: reading a dataset takes as long as the bandwidth demands for all bytes, headers
// included, however many readers there are. A waiting read can be stopped.
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
