package main

import (
	"context"
	"errors"
	"syscall"
	"testing"
)

// TestSecondSignal: a command that does not stop is abandoned, after a second signal at once.
func TestSecondSignal(t *testing.T) {
	never := make(chan struct{})
	defer close(never)
	for _, second := range []bool{true, false} { // without one, a moment later
		s := &signals{}
		err := s.supervise(func(ctx context.Context) error {
			send(t, syscall.SIGTERM)
			<-ctx.Done()
			if second {
				send(t, syscall.SIGTERM)
			}
			<-never
			return nil
		})
		if !errors.Is(err, errAbandoned) || exitStatus(err) != statusFailed {
			t.Errorf("it ended with %v", err)
		}
	}
}

// TestSignalsTaken: once there is a mount, it gets the signals, including an earlier one.
// Signals with another meaning end nothing.
func TestSignalsTaken(t *testing.T) {
	s := &signals{}
	err := s.supervise(func(ctx context.Context) error {
		hung := make(chan struct{})
		s.serve(syscall.SIGHUP, func() { hung <- struct{}{} })
		send(t, syscall.SIGHUP)
		<-hung
		if ctx.Err() != nil {
			t.Error("SIGHUP cancelled the command")
		}
		send(t, syscall.SIGINT)
		<-ctx.Done()
		mine := s.forward()
		<-mine
		send(t, syscall.SIGTERM)
		<-mine
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

func send(t *testing.T, s syscall.Signal) {
	t.Helper()
	if err := syscall.Kill(syscall.Getpid(), s); err != nil {
		t.Error(err)
	}
}
