package parallel

import (
	"context"
	"errors"
	"testing"
)

func TestPromptly(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	failure := errors.New("failure")
	if n, err := Promptly(ctx, func() (int, error) { return 5, nil }, nil); n != 5 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
	if _, err := Promptly(ctx, func() (int, error) { return 0, failure }, nil); err != failure {
		t.Errorf("error %v", err)
	}
	orderly := func() (int, error) { cancel(); <-ctx.Done(); return 6, failure }
	if n, err := Promptly(ctx, orderly, nil); n != 6 || err != failure {
		t.Errorf("in order: %d, %v", n, err)
	}
}

// TestWorkThatHangs: hanging work is left behind, and its late result is passed on.
func TestWorkThatHangs(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	hang, late := make(chan struct{}), make(chan int)
	calls := 0
	report, stop := Progress(func(done, total int64) { calls++ })
	n, err := Promptly(ctx, func() (int, error) {
		report(1, 2)
		cancel()
		<-hang
		report(2, 2)
		return 7, nil
	}, func(n int) { late <- n })
	if n != 0 || !errors.Is(err, context.Canceled) {
		t.Errorf("%d, %v", n, err)
	}
	stop()
	close(hang)
	if n := <-late; n != 7 {
		t.Errorf("late: %d", n)
	}
	if calls != 1 {
		t.Errorf("reported %d times", calls)
	}
}

func TestNoProgress(t *testing.T) {
	report, stop := Progress(nil)
	if stop(); report != nil {
		t.Error("there is something to call")
	}
}
