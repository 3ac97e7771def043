package main

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"
)

// signals handles the signals that end programs. The first one cancels the command. If the
// command has not stopped a moment later, because storage or a mount hangs, or if a second
// signal comes, the process ends without it. A live mount takes its signals itself.
type signals struct {
	mu    sync.Mutex
	asked int            // number of signals received to end the command
	taken chan os.Signal // the mount's channel, if there is one
	owned unmounter      // the mount to detach if the process ends without its command
}

// An unmounter is a mount of this process.
type unmounter interface{ Detach() error }

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
	ended := make(chan error, 1)
	go func() { ended <- command(ctx) }()
	var late <-chan time.Time
	for {
		abandon := false
		select {
		case err := <-ended:
			return err
		case sig := <-came:
			switch asked := s.receive(sig); asked {
			case 0: // the mount has it
			case 1:
				cancel()
				late = time.After(stopTime)
			default:
				abandon = true
			}
		case <-late:
			abandon = true
		}
		if abandon {
			if err := s.abandon(); err != nil {
				return err
			}
		}
	}
}

// receive passes a signal on to the mount, or returns the number received to end the command.
func (s *signals) receive(sig os.Signal) (asked int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.taken == nil {
		s.asked++
		return s.asked
	}
	select {
	case s.taken <- sig:
	default: // the channel is full, which is enough
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

// own has a mount detached if the command is abandoned; disown undoes that.
func (s *signals) own(m unmounter) (disown func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.owned = m
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.owned = nil
	}
}

// abandon gives up a command that does not stop, and detaches its mount. It returns nil if the
// mount takes the signals by now.
func (s *signals) abandon() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.taken != nil:
		return nil
	case s.owned != nil:
		return errors.Join(errAbandoned, s.owned.Detach())
	}
	return errAbandoned
}
