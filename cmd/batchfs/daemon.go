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
const childFlag = "child" // says that a parent waits

// A program that owns a mount, such as batchfs.mount of the package for Python, passes on the read
// end of a pipe whose write end nobody else has. When that closes, however the program ends, the
// mount is asked to end. A mountpoint that was made for the mount is removed with it.
const (
	ownerFlag     = "owner-fd"
	temporaryFlag = "temporary-mountpoint"
)

// spawn starts the daemon of a mount command, in a session of its own, and waits until it is live.
// The daemon gets the pipe of its owner; nil: it has no owner. If ctx ends earlier, the daemon is
// told to end.
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
		return exitSilently(exit.ExitCode()) // the daemon already printed why
	}
	return err
}

// detach separates this process from the one that started it: it leaves its directory, and the
// terminal. If there is a log file, crashes are written there; if not, logging ends here.
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

// notify tells the state of the mount to systemd, or to the process that waits in spawn, if one of
// them asked for that. It reports whether somebody listens, or nobody asked.
func (e environment) notify(state string) (heard bool) {
	if e.notifySocket == "" {
		return true
	}
	conn, err := net.Dial("unixgram", e.notifySocket)
	if err != nil {
		return false
	}
	defer conn.Close()
	_, err = conn.Write([]byte(state))
	return err == nil
}
