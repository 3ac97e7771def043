package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net"
	"os"
	"os/exec"
	"slices"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/batchfs/batchfs/internal/daemon"
)

// A daemon is the same command line run again. Its parent waits until its mount is live, so that
// `batchfs mount --daemon && ls mnt` works, and passes on the exit status of a child that ended
// earlier. The child says that it is live as it would to systemd. Until then it talks to the user
// through the descriptors it inherited.
const childFlag = "child" // tells it that a parent waits

// A program that owns a mount, as batchfs.mount of the package for Python, passes on the read
// end of a pipe whose write end nobody else has. The mount is asked to end when that closes,
// however the program ends; a mountpoint that was made for the mount is removed with it.
const (
	ownerFlag     = "owner-fd"
	temporaryFlag = "temporary-mountpoint"
)

// spawn starts the daemon of a mount command, in a session of its own, and waits until it is live.
// The daemon gets the pipe of its owner; nil: it has none. If ctx ends before, it is told to end.
func (c *console) spawn(ctx context.Context, owner *os.File, flags, args []string) error {
	program, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find this program to run it as a daemon: %w", err)
	}
	starting, end := context.WithCancel(context.Background()) // ctx ends with this process, too
	defer context.AfterFunc(ctx, end)()
	words := slices.Concat([]string{"mount"}, flags, []string{"--daemon=false", "--" + childFlag})
	child := exec.CommandContext(starting, program)
	child.Cancel = func() error { return child.Process.Signal(syscall.SIGTERM) }
	child.Stdout, child.Stderr, child.SysProcAttr = c.out, c.err, &syscall.SysProcAttr{Setsid: true}
	if owner != nil {
		words = append(words, fmt.Sprintf("--%s=%d", ownerFlag, 3))
		child.ExtraFiles = []*os.File{owner}
	}
	child.Args = slices.Concat([]string{"batchfs"}, words, []string{"--"}, args)
	if _, err := daemon.Start(child, math.MaxInt64); err != nil { // indexing takes as long as it takes
		return endOf(err)
	}
	c.env.notify("READY=1")
	return nil
}

// endOf converts the error of a daemon that ended before its mount was live into this process's.
func endOf(err error) error {
	if exit, ok := errors.AsType[*exec.ExitError](err); ok && exit.Exited() {
		return said(exit.ExitCode()) // the daemon already printed why
	}
	return err
}

// detach separates this process from the one that started it: it leaves the directory it was
// started in, and the terminal. With a log file, crashes are written there; without one, this is
// the end of the log.
func detach(log *mountLog) error {
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
	if err := os.Chdir("/"); err != nil || log.file == nil {
		return err
	}
	return log.file.follow(1, 2)
}

// notify tells systemd, or the process that waits in spawn, the state of the mount, if it asked for
// that. It is no error if nothing listens: the mount does not depend on it.
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
