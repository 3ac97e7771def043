package parallel

import (
	"context"
	"errors"
	"iter"
	"sync/atomic"
	"testing"
)

// TestEach: every item is worked on once, whatever the number of workers, and progress ends at
// the total.
func TestEach(t *testing.T) {
	for _, n := range []int{0, 1, 2, 7, 128, 129, 5000, 50000} {
		for _, workers := range []int{0, 1, 3, 16} {
			seen := make([]atomic.Int32, n)
			last := int64(-1)
			progress := func(done, total int64) {
				if done <= last || total != int64(n) {
					t.Errorf("%d of %d after %d", done, total, last)
				}
				last = done
			}
			err := Each(t.Context(), workers, n, progress, func(_ context.Context, items iter.Seq[int]) error {
				for i := range items {
					seen[i].Add(1)
				}
				return nil
			})
			if err != nil || last != int64(n) {
				t.Errorf("n %d, workers %d: progress ends at %d: %v", n, workers, last, err)
			}
			for i := range seen {
				if k := seen[i].Load(); k != 1 {
					t.Fatalf("n %d, workers %d: item %d came %d times", n, workers, i, k)
				}
			}
		}
	}
}

// TestFailure: a worker that fails stops the others, also those that wait.
func TestFailure(t *testing.T) {
	failure := errors.New("failure")
	var calls atomic.Int32
	err := Each(t.Context(), 4, 1<<20, nil, func(ctx context.Context, items iter.Seq[int]) error {
		for i := range items {
			calls.Add(1)
			if i == 0 {
				return failure
			}
			<-ctx.Done()
		}
		return nil
	})
	if err != failure || calls.Load() > 4 {
		t.Errorf("%v after %d calls", err, calls.Load())
	}
}

// TestInterrupted: when the context ends, the items do, and Each says so; but not if everything
// was done by then.
func TestInterrupted(t *testing.T) {
	for last, want := range map[int]error{3: context.Canceled, 9: nil} {
		ctx, cancel := context.WithCancel(t.Context())
		calls := 0
		err := Each(ctx, 1, 10, nil, func(_ context.Context, items iter.Seq[int]) error {
			for i := range items {
				if calls++; i == last {
					cancel()
				}
			}
			return nil
		})
		if calls != last+1 || !errors.Is(err, want) {
			t.Errorf("interrupted in item %d: %v after %d calls", last, err, calls)
		}
	}
}

// TestEveryWorkerKeepsItsState: work runs once per worker, around all of its items.
func TestEveryWorkerKeepsItsState(t *testing.T) {
	var started, total atomic.Int32
	err := Each(t.Context(), 3, 1000, nil, func(_ context.Context, items iter.Seq[int]) error {
		started.Add(1)
		mine := int32(0)
		for range items {
			mine++
		}
		total.Add(mine)
		return nil
	})
	if err != nil || started.Load() != 3 || total.Load() != 1000 {
		t.Errorf("%d workers, %d items: %v", started.Load(), total.Load(), err)
	}
}
