package fusefs

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"
)

// The kernel interrupts a request when the thread that waits for it has other work. Usually
// that is a signal. But in a program that uses io_uring it may also be kernel work that
// does not end the thread's system call, and an open that returned EINTR then would be an
// unexpected error. So an interrupt counts only if the thread has a signal to handle, or is
// gone. The kernel reports only one interrupt per request; after one that did not count, the
// thread is polled.

// lookAgain is the polling interval after an interrupt that did not count.
const lookAgain = 20 * time.Millisecond

// A signalContext is cancelled when the thread that waits for a request has a signal to
// handle. It starts no goroutine until Done is called.
type signalContext struct {
	context.Context
	end    context.CancelFunc
	cancel <-chan struct{} // the request's channel: closed on the first interrupt
	counts func() bool     // reports whether an interrupt counts
	once   sync.Once
}

// untilSignal returns a context for a request of a thread. The caller calls end when it has
// the answer.
func (f *filesystem) untilSignal(cancel <-chan struct{}, thread uint32) *signalContext {
	c := &signalContext{cancel: cancel, counts: func() bool { return !f.alive() || signalled(thread, os.ReadFile) }}
	c.Context, c.end = context.WithCancel(context.Background())
	return c
}

// Done is closed when the thread has a signal to handle.
func (c *signalContext) Done() <-chan struct{} {
	c.once.Do(func() { go c.watch() })
	return c.Context.Done()
}

// watch may see the channel of go-fuse's next request after end, when nothing waits for
// this context any more.
func (c *signalContext) watch() {
	defer c.end()
	select {
	case <-c.Context.Done():
		return
	case <-c.cancel:
	}
	again := time.NewTicker(lookAgain)
	defer again.Stop()
	for !c.counts() {
		select {
		case <-c.Context.Done():
			return
		case <-again.C:
		}
	}
}

// statusOf returns the kernel's status of a thread.
func statusOf(thread uint32, read func(name string) ([]byte, error)) (map[string]string, error) {
	text, err := read(fmt.Sprintf("/proc/%d/status", thread))
	status := map[string]string{}
	for line := range strings.Lines(string(text)) {
		key, value, _ := strings.Cut(line, ":")
		status[key] = strings.TrimSpace(value)
	}
	return status, err
}

// signalled reports whether a thread has a signal to handle, is ending, or is gone. It
// returns true for a thread that is not visible here, as in another PID namespace.
func signalled(thread uint32, read func(name string) ([]byte, error)) bool {
	status, err := statusOf(thread, read)
	if thread == 0 || err != nil {
		return true
	}
	if state := status["State"]; strings.HasPrefix(state, "Z") || strings.HasPrefix(state, "X") {
		return true
	}
	var masks [3]uint64
	for i, key := range []string{"SigPnd", "ShdPnd", "SigBlk"} {
		if masks[i], err = strconv.ParseUint(status[key], 16, 64); err != nil {
			return true
		}
	}
	// Ignored signals are pending only if a debugger wants to see them.
	return (masks[0]|masks[1])&^masks[2] != 0
}
