package integration

import (
	"testing"
	"time"
)

// eventually polls until so returns true. It is for conditions without notification, such
// as a process starting to wait in the kernel.
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
