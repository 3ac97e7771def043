package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"slices"
	"syscall"

	"github.com/batchfs/batchfs/internal/logging"
)

// A daemon is the same command line run again in its own session. It writes one word into a
// pipe when the mount is live. Its parent waits for that word, so that `batchfs mount
// --daemon && ls mnt` works, and passes on the exit status of a child that ended earlier.
// Until then the child talks to the user through the descriptors it inherited.
const (
	readyFlag = "ready-fd" // tells the child the descriptor of the pipe
	liveWord  = "live\n"
)

// A program that owns a mount, as batchfs.mount of the package for Python, passes on the read
// end of a pipe whose write end nobody else has. The mount is asked to end when that closes,
// however the program ends; a mountpoint that was made for the mount is removed with it.
const (
	ownerFlag     = "owner-fd"
	temporaryFlag = "temporary-mountpoint"
)

// spawn starts the daemon of a mount command and waits until it is live. The daemon gets the
// pipe of its owner; nil: it has none.
func (c *console) spawn(ctx context.Context, owner *os.File, flags, args []string) error {
	program, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find this program to run it as a daemon: %w", err)
	}
	ready, live, err := os.Pipe()
	if err != nil {
		return err
	}
	defer ready.Close()
	const firstExtraFile = 3
	words := slices.Concat([]string{"mount"}, flags, []string{"--daemon=false", fmt.Sprintf("--%s=%d", readyFlag, firstExtraFile)})
	extra := []*os.File{live}
	if owner != nil {
		words = append(words, fmt.Sprintf("--%s=%d", ownerFlag, firstExtraFile+len(extra)))
		extra = append(extra, owner)
	}
	child := exec.Command(program, slices.Concat(words, []string{"--"}, args)...)
	child.Args[0] = "batchfs"
	child.Stdout, child.Stderr = c.out, c.err
	child.ExtraFiles = extra
	child.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	err = child.Start()
	live.Close()
	if err != nil {
		return fmt.Errorf("start the daemon: %w", err)
	}
	stop := context.AfterFunc(ctx, func() { _ = child.Process.Signal(syscall.SIGTERM) })
	defer stop()
	word, err := io.ReadAll(ready)
	if err != nil {
		return fmt.Errorf("wait for the daemon: %w", err)
	}
	if string(word) == liveWord {
		return child.Process.Release()
	}
	return endOf(child.Wait())
}

// endOf converts the result of a daemon that ended before its mount was live into this
// process's error.
func endOf(err error) error {
	const early = "the daemon ended before its mount was live"
	if err == nil {
		return errors.New(early)
	}
	if exit, ok := errors.AsType[*exec.ExitError](err); ok && exit.Exited() {
		return said(exit.ExitCode()) // the daemon already printed why
	}
	return fmt.Errorf(early+": %w", err)
}

// detach separates the daemon from its parent: it leaves the directory it was started in,
// closes the terminal and reports the mount live. With a log file, crashes are written
// there; without one, this is the end of the log.
func detach(readyFD int, log *mountLog) error {
	ready := os.NewFile(uintptr(readyFD), "ready")
	if ready == nil {
		return usage("--%s %d is not an open file", readyFlag, readyFD)
	}
	defer ready.Close()
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer null.Close()
	if err := os.Chdir("/"); err != nil {
		return err
	}
	log.console.Close() // what was printed so far still reaches the user
	if err := logging.Duplicate(null, []int{0, 1, 2}); err != nil {
		return err
	}
	if log.file != nil {
		if err := log.file.Follow(1, 2); err != nil {
			return err
		}
	}
	_, err = ready.WriteString(liveWord)
	return err
}

// notify tells systemd the state of the mount if systemd asked for it (Type=notify). It is
// no error if nothing listens: the mount does not depend on it.
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
