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

	"github.com/batchfs/batchfs/fusefs"
)

// signals handles the signals that end programs. The first one cancels the command. If the
// command has not stopped a moment later, because storage or a mount hangs, or if a second
// signal comes, the process ends without it. A live mount takes its signals itself.
type signals struct {
	mu           sync.Mutex
	received     int            // number of signals received to end the command
	mountSignals chan os.Signal // the mount's channel, if there is one
	came         chan<- os.Signal
}

// follow makes the end of the process that owns this one count like a signal. Only the owner holds
// the other end of the pipe owner, and writes nothing to it. A death signal (PR_SET_PDEATHSIG)
// would not do: it comes when the owner's thread ends, which may be one of many, and the parent of
// a daemon is not its owner.
func (s *signals) follow(owner *os.File) {
	s.mu.Lock()
	came := s.came
	s.mu.Unlock()
	go func() {
		defer owner.Close()
		_, _ = io.Copy(io.Discard, owner)
		came <- fusefs.OwnerEnded{}
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
		case <-late: // this counts like a second signal
		}
		switch s.receive(sig) {
		case 0: // the mount has received it
		case 1:
			cancel()
			late = time.After(stopTime)
		default:
			return errAbandoned
		}
	}
}

// receive passes a signal on to the mount, or returns how many signals to end the command there
// were. A nil signal counts only for the command.
func (s *signals) receive(sig os.Signal) (asked int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mountSignals == nil {
		s.received++
		return s.received
	}
	if sig != nil && len(s.mountSignals) < cap(s.mountSignals) { // a full channel is enough
		s.mountSignals <- sig
	}
	return 0
}

// serve handles a signal by calling what, from now on, instead of ending the command.
func (s *signals) serve(sig os.Signal, what func()) {
	heard := make(chan os.Signal, 1)
	signal.Reset(sig) // resets it for supervise, too
	signal.Notify(heard, sig)
	go func() {
		for range heard {
			what()
		}
	}()
}

// forward routes all further signals that end programs to the caller, plus one if any came
// before.
func (s *signals) forward() <-chan os.Signal {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mountSignals = make(chan os.Signal, 4)
	if s.received > 0 {
		s.mountSignals <- syscall.SIGTERM
	}
	return s.mountSignals
}

// attend waits until a mount ends, and says what it waits for. closed reports that nothing holds
// any part of the mount any more.
func (r *mountRequest) attend(m *fusefs.Session, signals <-chan os.Signal) (closed bool, err error) {
	path, word := m.Path(), shellWord(m.Path())
	closed, err = m.Attend(signals, func(n fusefs.Notice) {
		switch n.Kind {
		case fusefs.InUse:
			r.log.warn(fmt.Sprintf("%s is in use and will be unmounted when nobody uses it any more", path),
				fmt.Sprintf("fuser -vm %s shows who uses it; a second signal, or batchfs umount --lazy %s, detaches it now", word, word))
		case fusefs.Detached:
			r.log.warn(fmt.Sprintf("detached %s; serving what is still open until a third signal", path), "")
		case fusefs.HeldUntilAsked:
			r.log.warn(heldWords(path, n.Held), fmt.Sprintf("it ends when they end; kill %d ends it now", os.Getpid()))
		case fusefs.HeldForGood:
			r.log.warn(heldWords(path, n.Held), "")
		}
	})
	if err != nil && !errors.Is(err, fusefs.ErrDetach) {
		err = hint(err, "batchfs umount --lazy %s", word)
	}
	return closed, err
}

// heldWords says that a mount is unmounted but still held.
func heldWords(mountpoint string, held *fusefs.HeldError) string {
	return fmt.Sprintf("%s is unmounted, and %v", mountpoint, held)
}
