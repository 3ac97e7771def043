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

// signals handles the signals sent to this process. The first signal that ends programs
// cancels the command. If the command has not stopped a moment later, because storage or a
// mount hangs, or if a second signal comes, the process ends without it. A live mount takes
// its signals itself. The nil pointer handles none.
type signals struct {
	mu     sync.Mutex
	cancel context.CancelFunc
	asked  int                // number of signals received to end the command
	served map[os.Signal]bool // signals with another meaning
	taken  chan os.Signal     // the mount's channel, if there is one
	owned  map[unmounter]bool // mounts to detach if the process ends without its command
}

// An unmounter is a mount of this process.
type unmounter interface{ Detach() error }

// stopTime is how long a cancelled command may take to stop.
const stopTime = 2 * time.Second

// supervise runs a command until it ends or has to be abandoned.
func (s *signals) supervise(command func(context.Context) error) error {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	s.cancel = cancel
	came := make(chan os.Signal, 8)
	signal.Notify(came, stopSignals()...)
	defer signal.Stop(came)
	ended := make(chan error, 1)
	go func() { ended <- command(ctx) }()
	var late <-chan time.Time
	for {
		select {
		case err := <-ended:
			return err
		case sig := <-came:
			switch s.receive(sig) {
			case 0:
			case 1:
				late = time.After(stopTime)
			default:
				return s.abandon()
			}
		case <-late:
			if late = nil; !s.isTaken() {
				return s.abandon()
			}
		}
	}
}

// stopSignals are the signals that end a command. SIGINT is included even for background
// jobs, which shells start with SIGINT ignored. SIGHUP is left out under nohup.
func stopSignals() []os.Signal {
	all := []os.Signal{syscall.SIGINT, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) {
		all = append(all, syscall.SIGHUP)
	}
	return all
}

// receive handles a signal and returns the number received to end the command.
func (s *signals) receive(sig os.Signal) (asked int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.served[sig] {
		return 0
	}
	if s.taken != nil {
		select {
		case s.taken <- sig:
		default: // the channel is full, which is enough
		}
		return 0
	}
	s.asked++
	s.cancel()
	return s.asked
}

// serve handles a signal with what instead of ending the command.
func (s *signals) serve(sig os.Signal, what func()) {
	if s == nil {
		return
	}
	s.mu.Lock()
	if s.served == nil {
		s.served = map[os.Signal]bool{}
	}
	s.served[sig] = true
	s.mu.Unlock()
	heard := make(chan os.Signal, 1)
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
	if s == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.taken = make(chan os.Signal, 4)
	if s.asked > 0 {
		s.taken <- syscall.SIGTERM
	}
	return s.taken
}

func (s *signals) isTaken() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.taken != nil
}

// own has a mount detached if the command is abandoned; disown undoes that.
func (s *signals) own(m unmounter) (disown func()) {
	if s == nil {
		return func() {}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.owned == nil {
		s.owned = map[unmounter]bool{}
	}
	s.owned[m] = true
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.owned, m)
	}
}

// abandon ends the process's mounts when a command does not stop.
func (s *signals) abandon() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	err := errAbandoned
	for m := range s.owned {
		err = errors.Join(err, m.Detach())
	}
	return err
}
