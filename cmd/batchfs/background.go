package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"syscall"

	"golang.org/x/sys/unix"
)

// liveFD is the descriptor of a pipe in a process that startLive started. The process says there
// that its mount is live. Its own ExtraFiles follow.
const liveFD = 3

// liveWord is what it says.
const liveWord = "live\n"

// errEarly means that a process ended before its mount was live.
var errEarly = errors.New("the daemon ended before its mount was live")

// startLive starts a command that mounts, in a session of its own, and waits until its mount is
// live: it calls detach. Until then it may talk to the user through the descriptors that it was
// given. If it ends before, the error wraps errEarly, and maybe an *exec.ExitError. If ctx ends,
// the process is told to end.
func startLive(ctx context.Context, cmd *exec.Cmd) error {
	ready, live, err := os.Pipe()
	if err != nil {
		return err
	}
	defer ready.Close()
	cmd.ExtraFiles = append([]*os.File{live}, cmd.ExtraFiles...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	err = cmd.Start()
	live.Close()
	if err != nil {
		return fmt.Errorf("start the daemon: %w", err)
	}
	stop := context.AfterFunc(ctx, func() { _ = cmd.Process.Signal(syscall.SIGTERM) })
	defer stop()
	word, err := io.ReadAll(ready)
	if err != nil {
		return fmt.Errorf("wait for the daemon: %w", err)
	}
	if string(word) == liveWord {
		return cmd.Process.Release()
	}
	if err := cmd.Wait(); err != nil {
		return fmt.Errorf("%w: %w", errEarly, err)
	}
	return errEarly
}

// detach separates this process from the one that started it, which waits in startLive, and tells
// that one that the mount is live: it leaves the directory it was started in, and the terminal.
// With a log file, crashes are written there; without one, this is the end of the log.
func detach(readyFD int, log *mountLog) error {
	log.console.close() // what was printed so far still reaches the user
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer null.Close()
	for fd := range 3 {
		if err := unix.Dup3(int(null.Fd()), fd, 0); err != nil {
			return err
		}
	}
	if err := os.Chdir("/"); err != nil {
		return err
	}
	if log.file != nil {
		if err := log.file.follow(1, 2); err != nil {
			return err
		}
	}
	ready := os.NewFile(uintptr(readyFD), "ready")
	defer ready.Close()
	_, err = ready.WriteString(liveWord)
	return err
}

// notify tells systemd the state of the mount, if it asked for that (Type=notify). It is no error
// if nothing listens: the mount does not depend on it.
func (e environment) notify(state string) {
	if e.notifySocket == "" {
		return
	}
	conn, err := net.Dial("unixgram", e.notifySocket)
	if err != nil {
		return
	}
	defer conn.Close()
	_, _ = conn.Write([]byte(state))
}
