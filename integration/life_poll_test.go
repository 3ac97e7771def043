package integration

import (
	"testing"
	"time"
)

// eventually looks again and again until something is so. It is for what sends no
// word when it happens, such as that a process has begun to wait in the kernel.
func eventually(t testing.TB, what string, so func() bool) {
	t.Helper()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	deadline := time.After(patience)
	for !so() {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("never: %s", what)
		}
	}
}
