package integration

import (
	"testing"
	"time"
)

// eventually polls until so returns true. It is for conditions without notification, such
// as a process starting to wait in the kernel. It looks less often the longer it takes,
// since most looks start a process.
func eventually(t testing.TB, what string, so func() bool) {
	t.Helper()
	const first, longest = time.Millisecond, 20 * time.Millisecond
	deadline := time.Now().Add(patience)
	for pause := first; !so(); pause = min(pause*5/4, longest) {
		if time.Now().After(deadline) {
			t.Fatalf("never: %s", what)
		}
		time.Sleep(pause)
	}
}
