package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/batchfs/batchfs/fusefs"
)

// signals handles the signals that end programs. The first one cancels the command. If the
// command has not stopped a moment later, because storage or a mount hangs, or if a second
// signal comes, the process ends without it. A live mount takes its signals itself.
type signals struct {
	mu    sync.Mutex
	asked int            // number of signals received to end the command
	taken chan os.Signal // the mount's channel, if there is one
	came  chan<- os.Signal
}

// ownerEnded counts as a signal that asks a mount to end, but only as the first one: what its
// owner's other processes still read must not be detached from them.
type ownerEnded struct{}

func (ownerEnded) Signal()        {}
func (ownerEnded) String() string { return "the end of the owner" }

// follow has the end of the process that owns this one count like a signal. The owner alone
// holds the other end of the pipe owner, and writes nothing to it. A death signal
// (PR_SET_PDEATHSIG) would not do: it comes when the owner's thread ends, which may be one of
// many, and the parent of a daemon is not its owner.
func (s *signals) follow(owner *os.File) {
	s.mu.Lock()
	came := s.came
	s.mu.Unlock()
	go func() {
		defer owner.Close()
		_, _ = io.Copy(io.Discard, owner)
		came <- ownerEnded{}
	}()
}

// stopTime is how long a cancelled command may take to stop.
const stopTime = 2 * time.Second

// supervise runs a command until it ends or has to be abandoned. SIGINT counts even for
// background jobs, which shells start with SIGINT ignored; SIGHUP not under nohup.
func (s *signals) supervise(command func(context.Context) error) error {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	came := make(chan os.Signal, 8)
	signal.Notify(came, syscall.SIGINT, syscall.SIGTERM)
	if !signal.Ignored(syscall.SIGHUP) {
		signal.Notify(came, syscall.SIGHUP)
	}
	defer signal.Stop(came)
	s.mu.Lock()
	s.came = came
	s.mu.Unlock()
	ended := make(chan error, 1)
	go func() { ended <- command(ctx) }()
	var late <-chan time.Time
	for {
		var sig os.Signal
		select {
		case err := <-ended:
			return err
		case sig = <-came:
		case <-late: // like a second signal
		}
		switch s.receive(sig) {
		case 0: // the mount has it
		case 1:
			cancel()
			late = time.After(stopTime)
		default:
			return errAbandoned
		}
	}
}

// receive passes a signal on to the mount, or returns the number received to end the command.
// A nil one only counts for the command.
func (s *signals) receive(sig os.Signal) (asked int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.taken == nil {
		s.asked++
		return s.asked
	}
	if sig != nil && len(s.taken) < cap(s.taken) { // a full channel is enough
		s.taken <- sig
	}
	return 0
}

// serve handles a signal with what, from now on, instead of ending the command.
func (s *signals) serve(sig os.Signal, what func()) {
	heard := make(chan os.Signal, 1)
	signal.Reset(sig) // also for supervise
	signal.Notify(heard, sig)
	go func() {
		for range heard {
			what()
		}
	}()
}

// take routes all further signals that end programs to the caller, plus one if any came
// before.
func (s *signals) take() <-chan os.Signal {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.taken = make(chan os.Signal, 4)
	if s.asked > 0 {
		s.taken <- syscall.SIGTERM
	}
	return s.taken
}

// live is what attend needs of a mount.
type live interface {
	Wait()
	Gone() <-chan struct{}
	Holders() []fusefs.Holder
	Unmount() error
	Detach() error
	ReadPath() string
	Path() string
}

// tryAgain is the interval between unmount attempts while a mount is still in use.
const tryAgain = time.Second

// attend waits until a mount ends, unmounted from outside or by a signal. On the first
// signal, a mount in use stays until nothing uses it. The second signal detaches it; open
// batches stay readable. A mount that is gone from this namespace but still held elsewhere,
// for example in another mount namespace, ends with the next signal. Messages about this go
// to tell. closed reports that nothing holds any part of the mount any more.
func attend(m live, signals <-chan os.Signal, tell func(message, hint string)) (closed bool, err error) {
	a := attendance{live: m, tell: tell, tried: make(chan error, 1)}
	ended, gone := make(chan struct{}), m.Gone()
	go func() {
		m.Wait()
		close(ended)
	}()
	for over := false; !over && err == nil; {
		next := signals
		if a.trying && !a.gone {
			next = nil // wait for the result of the unmount first
		}
		select {
		case <-ended:
			return true, nil
		case <-gone:
			if gone, a.gone = nil, true; a.trying {
				continue // result reports the holders
			}
			if found := m.Holders(); len(found) > 0 {
				tell(heldWords(m.Path(), &fusefs.HeldError{Holders: found}), fmt.Sprintf("it ends when they end; kill %d ends it now", os.Getpid()))
			}
		case <-a.again:
			a.try()
		case result := <-a.tried:
			over, err = a.result(result)
		case sig := <-next:
			over, err = a.signal(sig)
		}
	}
	return false, err
}

// attendance is the state of attend.
type attendance struct {
	live
	tell func(message, hint string)

	gone   bool // from this namespace
	asked  int  // number of signals received
	trying bool
	tried  chan error       // the result of Unmount
	again  <-chan time.Time // nil, which blocks forever, unless the mount is in use
}

// signal handles one signal; over reports that attend is done.
func (a *attendance) signal(sig os.Signal) (over bool, err error) {
	if sig == (ownerEnded{}) && (a.gone || a.asked > 0) {
		return false, nil // it is ending
	}
	a.asked++
	switch {
	case a.gone || a.asked > 2:
		return true, nil
	case a.asked == 1:
		a.try()
		return false, nil
	}
	a.again = nil
	if err := a.Detach(); err != nil {
		return false, fmt.Errorf("detach %s: %w", a.Path(), err)
	}
	if a.ReadPath() == "passthrough" {
		return true, nil // the kernel serves open files without us
	}
	a.tell(fmt.Sprintf("detached %s; serving what is still open until a third signal", a.Path()), "")
	return false, nil
}

// try unmounts in the background.
func (a *attendance) try() {
	if !a.trying {
		a.trying = true
		go func() { a.tried <- a.Unmount() }()
	}
}

// result handles the result of an unmount.
func (a *attendance) result(err error) (over bool, failed error) {
	a.trying = false
	var held *fusefs.HeldError
	word := shellWord(a.Path())
	switch {
	case err == nil:
		a.again = nil // ended follows
	case errors.As(err, &held):
		a.tell(heldWords(a.Path(), held), "")
		return true, nil
	case a.again != nil: // the user knows
	case !errors.Is(err, unix.EBUSY):
		return false, hint(fmt.Errorf("unmount %s: %w", a.Path(), err), "batchfs umount --lazy %s", word)
	default:
		a.again = time.Tick(tryAgain)
		a.tell(fmt.Sprintf("%s is in use and will be unmounted when nobody uses it any more", a.Path()),
			fmt.Sprintf("fuser -vm %s shows who uses it; a second signal, or batchfs umount --lazy %s, detaches it now", word, word))
	}
	return false, nil
}

// heldWords says that a mount is unmounted but still held.
func heldWords(mountpoint string, held *fusefs.HeldError) string {
	return fmt.Sprintf("%s is unmounted, and %v", mountpoint, held)
}
