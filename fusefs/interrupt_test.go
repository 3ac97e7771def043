package fusefs

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os/exec"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/batchfs/batchfs/internal/engine"
	"github.com/batchfs/batchfs/internal/testkit"
	"github.com/batchfs/batchfs/layout"
)

// TestSignalled checks how a thread's status in /proc is interpreted.
func TestSignalled(t *testing.T) {
	status := func(state string, thread, process, blocked uint64) string {
		return fmt.Sprintf("Name:\tx\nState:\t%s\nSigQ:\t0/9\nSigPnd:\t%016x\nShdPnd:\t%016x\nSigBlk:\t%016x\nSigIgn:\t0000000000001000\n", state, thread, process, blocked)
	}
	for _, c := range []struct {
		name   string
		thread uint32
		status string
		want   bool
	}{
		{"nothing", 7, status("D (disk sleep)", 0, 0, 0), false},
		{"its own", 7, status("D (disk sleep)", 2, 0, 0), true},
		{"its process's", 7, status("D (disk sleep)", 0, 2, 0), true},
		{"blocked", 7, status("D (disk sleep)", 2, 2, 2), false},
		{"one of two blocked", 7, status("D (disk sleep)", 2, 4, 2), true},
		{"the last real-time one", 7, status("D (disk sleep)", 1<<63, 0, 0), true},
		{"a zombie", 7, status("Z (zombie)", 0, 0, 0), true},
		{"gone", 8, "", true},
		{"in another namespace", 0, status("D (disk sleep)", 0, 0, 0), true},
		{"no number", 7, "SigPnd:\tx\n", true},
	} {
		read := func(name string) ([]byte, error) {
			if name != "/proc/7/status" {
				return nil, fs.ErrNotExist
			}
			return []byte(c.status), nil
		}
		if got := signalled(c.thread, read); got != c.want {
			t.Errorf("%s: %v", c.name, got)
		}
	}
}

// TestSignalContext: the wait continues after an interrupt that does not count, until one
// does. No goroutine runs before the wait or after the end.
func TestSignalContext(t *testing.T) {
	interrupt, looked := make(chan struct{}), make(chan struct{}, 100)
	var signal atomic.Bool
	c := &signalContext{cancel: interrupt, counts: func() bool { looked <- struct{}{}; return signal.Load() }}
	c.Context, c.end = context.WithCancel(t.Context())
	done := c.Done()
	if c.Err() != nil {
		t.Error(c.Err())
	}
	close(interrupt)
	for range 3 { // it polls
		<-looked
	}
	if c.Err() != nil {
		t.Error("it has ended without a signal")
	}
	signal.Store(true)
	<-done
	if !errors.Is(c.Err(), context.Canceled) {
		t.Error(c.Err())
	}
	c.end()
}

// ringOpener opens FILE in a thread that has io_uring work pending. A line of input makes
// the kernel finish such work, which wakes the thread without a signal. The program prints
// how the open ended.
const ringOpener = `
import ctypes, errno, os, struct, sys, threading, mmap
libc = ctypes.CDLL(None, use_errno=True)
def call(*args):
    r = libc.syscall(*[ctypes.c_long(a) if isinstance(a, int) else a for a in args])
    if r < 0:
        e = ctypes.get_errno()
        print("no io_uring", errno.errorcode[e], flush=True)
        os._exit(0)
    return r
r, w = os.pipe()
params = ctypes.create_string_buffer(120)
ring = call(425, 8, params) # io_uring_setup
p = struct.unpack_from("<10I", params.raw)
sq = struct.unpack_from("<7I", params.raw, 40) # head tail mask entries flags dropped array
rings = mmap.mmap(ring, sq[6] + p[0] * 4, offset=0)
sqes = mmap.mmap(ring, p[0] * 64, offset=0x10000000)
def submit(slot):
    # IORING_OP_POLL_ADD for POLLIN: finished by task work in the thread that asked
    struct.pack_into("<BBHiQQIIQ", sqes, slot * 64, 6, 0, 0, r, 0, 0, 0, 1, slot)
    struct.pack_into("<I", rings, sq[6] + slot * 4, slot)
    tail, = struct.unpack_from("<I", rings, sq[1])
    struct.pack_into("<I", rings, sq[1], tail + 1)
    call(426, ring, 1, 0, 0, 0, 0) # io_uring_enter
submit(0)
def poke():
    for line in sys.stdin:
        os.write(w, b"x")
        print("poked", flush=True)
threading.Thread(target=poke, daemon=True).start()
path = sys.argv[1].encode()
print("opening", flush=True)
fd = libc.open(path, os.O_RDONLY)
e = ctypes.get_errno()
print("open" if fd >= 0 else errno.errorcode[e], flush=True)
os._exit(0)
`

// TestInterruptWithoutSignal: a process that uses io_uring gets its batch although the
// kernel interrupts its open. A later signal still ends the wait.
func TestInterruptWithoutSignal(t *testing.T) {
	for _, killed := range []bool{false, true} {
		waiting, release, ended := make(chan struct{}, 9), make(chan struct{}), make(chan error, 9)
		src := newFake()
		src.before = func(ctx context.Context, _ engine.Key) error {
			waiting <- struct{}{}
			var err error
			select {
			case <-release:
			case <-ctx.Done():
				err = ctx.Err()
			}
			ended <- err
			return err
		}
		interrupted := make(chan struct{}, 1000)
		s := mounted(t, src, Options{})
		real := s.fs.alive
		s.fs.alive = func() bool { interrupted <- struct{}{}; return real() } // called for every interrupt
		p := start(t, testkit.Python(t), "-c", ringOpener, batchPath(s.Path(), 0, 0, 0, layout.NHWCForm))
		line, err := p.out.ReadString('\n')
		if err != nil || strings.TrimSpace(line) != "opening" {
			t.Skipf("SKIPPED: interrupts by io_uring cannot be tested here: %s (%v)", line, err)
		}
		<-waiting
		p.tell(t, "poke")
		p.expect(t, "poked")
		for range 2 { // the kernel has sent the interrupt, and the thread is still polled
			select {
			case <-interrupted:
			case err := <-ended:
				t.Fatalf("work of the kernel's own ended the wait: %v", err)
			}
		}
		if killed {
			p.kill(t, syscall.SIGKILL)
			var exit *exec.ExitError
			if err := p.cmd.Wait(); !errors.As(err, &exit) {
				t.Errorf("it was killed, and ended with %v", err)
			}
			if err := <-ended; !errors.Is(err, context.Canceled) {
				t.Errorf("the wait of a process that was killed ended with %v", err)
			}
			continue
		}
		close(release)
		p.expect(t, "open")
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
}
