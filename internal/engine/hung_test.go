package engine

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/batchfs/batchfs/internal/dataset"
)

// TestAllocatingIsNotHanging: reads that the kernel has wait while it allocates a large buffer do
// not count as hanging, unless they go on for long after that.
func TestAllocatingIsNotHanging(t *testing.T) {
	e := start(t, testDir(t, 8), func(o *Options) { o.PrefetchDepth = 0 })
	synctest.Test(t, func(t *testing.T) {
		m := &memory{allocations: allocations{began: time.Now()}}
		a := &m.allocations
		h := &hungReads{batches: &batches{opts: e.opts, bad: e.bad, memory: m}, began: time.Now()}
		l := &load{batches: e.batches}
		h.loads = []*load{l}
		time.Sleep(time.Millisecond)
		l.fetchingSince.Store(int64(time.Since(h.began)))
		finds := func(want int) {
			t.Helper()
			if found := h.findNew(time.Now()); len(found) != want {
				t.Errorf("after %v, %d reads hang", time.Since(h.began), len(found))
			}
		}
		_, _ = allocate(a, func() (*dataset.Dataset, error) {
			time.Sleep(3 * time.Second)
			finds(0)
			return nil, nil
		})
		finds(0)
		time.Sleep(stallAfter / 2)
		finds(0)
		_, _ = allocate(a, func() (*dataset.Dataset, error) { return nil, nil }) // at once
		time.Sleep(stallAfter / 2)
		finds(1)
	})
}
