package fusefs

import (
	"os"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/batchfs/batchfs/internal/testkit"
)

// TestAliveUntilTheOtherSideEnds: poll reports a hangup at one end of a pipe and an error at the
// other. A connection is dead with either.
func TestAliveUntilTheOtherSideEnds(t *testing.T) {
	for _, what := range []string{"hangup", "error"} {
		stays, goes, err := os.Pipe()
		testkit.Must(t, err)
		if what == "error" {
			stays, goes = goes, stays
		}
		defer stays.Close()
		c := connection{device: stays}
		if !c.alive() {
			t.Errorf("%s: dead before the end", what)
		}
		if goes.Close(); c.alive() {
			t.Errorf("%s: alive after the end", what)
		}
	}
}

// TestAliveDespiteSignals: a signal that interrupts the look at the device does not make a
// connection seem dead.
func TestAliveDespiteSignals(t *testing.T) {
	r, w, err := os.Pipe()
	testkit.Must(t, err)
	defer w.Close()
	c := connection{device: r}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	thread, done := unix.Gettid(), make(chan struct{})
	var stop atomic.Bool
	go func() {
		defer close(done)
		for !stop.Load() {
			_ = unix.Tgkill(os.Getpid(), thread, unix.SIGURG) // Go's runtime handles and ignores this signal
		}
	}()
	for start := time.Now(); time.Since(start) < time.Second; {
		if !c.alive() {
			t.Error("dead")
			break
		}
	}
	stop.Store(true)
	<-done
	if r.Close(); c.alive() {
		t.Error("alive after the end")
	}
}
