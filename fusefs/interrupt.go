package fusefs

import (
	"bytes"
	"context"
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
// gone.
//
// The kernel reports only one interrupt per request. After one that did not count, the
// thread is polled, so that a later signal is noticed.

// lookAgain is the polling interval after an interrupt that did not count.
const lookAgain = 20 * time.Millisecond

// A signalContext ends when the thread that waits for a request has a signal to handle. It
// starts no goroutine until Done is called.
type signalContext struct {
	context.Context                 // never ends by itself
	cancel          <-chan struct{} // the request's: closed on the first interrupt
	counts          func() bool     // reports whether an interrupt counts

	once  sync.Once
	done  chan struct{} // closed when an interrupt counts
	ended chan struct{} // closed by end
}

// untilSignal returns a context for a request of a thread. The caller calls end when it has
// the answer.
func (f *filesystem) untilSignal(cancel <-chan struct{}, thread uint32) *signalContext {
	counts := func() bool { return !f.alive() || signalled(thread, os.ReadFile) }
	return &signalContext{
		Context: context.Background(), cancel: cancel, counts: counts,
		done: make(chan struct{}), ended: make(chan struct{}),
	}
}

// Done is closed when the thread has a signal to handle.
func (c *signalContext) Done() <-chan struct{} {
	c.once.Do(func() { go c.watch() })
	return c.done
}

// Err is context.Canceled once Done is closed.
func (c *signalContext) Err() error {
	select {
	case <-c.done:
		return context.Canceled
	default:
		return nil
	}
}

// end gives up the context. go-fuse then reuses the request's channel, which no longer
// matters because nothing waits for this context any more.
func (c *signalContext) end() { close(c.ended) }

func (c *signalContext) watch() {
	select {
	case <-c.ended:
		return
	case <-c.cancel:
	}
	if c.counts() {
		close(c.done)
		return
	}
	again := time.NewTicker(lookAgain)
	defer again.Stop()
	for {
		select {
		case <-c.ended:
			return
		case <-again.C:
		}
		if c.counts() {
			close(c.done)
			return
		}
	}
}

// signalled reports whether a thread has a signal to handle, is ending, or is gone. It
// returns true for a thread that is not visible here, as in another PID namespace.
func signalled(thread uint32, read func(name string) ([]byte, error)) bool {
	if thread == 0 {
		return true
	}
	text, err := read("/proc/" + strconv.Itoa(int(thread)) + "/status")
	if err != nil {
		return true
	}
	var pending, blocked uint64
	for line := range bytes.Lines(text) {
		key, value, _ := strings.Cut(strings.TrimSpace(string(line)), ":")
		value = strings.TrimSpace(value)
		switch key {
		case "State":
			if strings.HasPrefix(value, "Z") || strings.HasPrefix(value, "X") {
				return true
			}
		case "SigPnd", "ShdPnd", "SigBlk":
			mask, err := strconv.ParseUint(value, 16, 64)
			if err != nil {
				return true
			}
			if key == "SigBlk" {
				blocked = mask
			} else {
				pending |= mask
			}
		}
	}
	// Ignored signals are pending only if a debugger wants to see them.
	return pending&^blocked != 0
}
