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

// The kernel interrupts a request whenever the thread that waits for it has
// something else to do. Mostly that is a signal; but in a program that uses io_uring
// it is also work of the kernel's own, which does not end the thread's system call.
// An open that returned EINTR then would be an error that nobody expects. So an
// interrupt counts only if the thread has a signal to handle, or is gone.
//
// The kernel tells of one interrupt only. After one that did not count, the thread is
// looked at again and again, or a signal that follows would not be noticed.

// lookAgain is how often a thread is looked at whose interrupt did not count.
const lookAgain = 20 * time.Millisecond

// A signalContext ends when a thread that waits for a request has a signal to
// handle. Nothing runs for it until somebody waits for its end.
type signalContext struct {
	context.Context                 // never ends by itself
	cancel          <-chan struct{} // of the request: closed with the first interrupt
	counts          func() bool     // whether an interrupt does

	once  sync.Once
	done  chan struct{} // closed when an interrupt counts
	ended chan struct{} // closed by end
}

// untilSignal is a context for a request of a thread; the caller ends it when it has
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

// Err is context.Canceled when Done is closed.
func (c *signalContext) Err() error {
	select {
	case <-c.done:
		return context.Canceled
	default:
		return nil
	}
}

// end gives the context up. go-fuse uses the request's channel again, but nobody
// waits for this context any more, whatever it makes of that.
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

// signalled reports whether a thread is to handle a signal, ends, or is gone. Of a
// thread that cannot be seen from here, as in another PID namespace, that is always
// believed.
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
	// An ignored signal is pending only where a debugger wants to see it.
	return pending&^blocked != 0
}
