package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"syscall"
)

// A daemon is the same command line run again in a session of its own. It
// writes one word into a pipe when the mount is live; its parent waits for
// that, so that `batchfs mount --daemon && ls mnt` works, and passes on the
// exit status of a child that ended before. Until then the child speaks to
// the user itself, through the descriptors it inherited.

// readyFlag tells the child which descriptor the pipe is.
const readyFlag = "ready-fd"

// liveWord is what comes through the pipe.
const liveWord = "live\n"

// spawn starts the daemon of this command line and waits until it is live.
func (c *console) spawn(ctx context.Context) error {
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
	line := c.line
	line.flags = append(append([]string{}, line.flags...), "--daemon=false", option(readyFlag, strconv.Itoa(firstExtraFile)))
	child := exec.Command(program, line.words()...)
	child.Args[0] = "batchfs"
	child.Stdout, child.Stderr = c.out, c.err
	child.ExtraFiles = []*os.File{live}
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

// endOf turns how a daemon ended before its mount was live into this
// process's end.
func endOf(err error) error {
	var exit *exec.ExitError
	switch {
	case err == nil:
		return errors.New("the daemon ended before its mount was live")
	case errors.As(err, &exit) && exit.Exited():
		return &saidError{exit.ExitCode()} // it said why
	}
	return fmt.Errorf("the daemon ended before its mount was live: %w", err)
}

// detach lets go of the parent: it reports the mount live, leaves the
// directory it was started in, and closes the terminal. A crash is written to
// the log file, where there is one.
func detach(readyFD int, log *logFile) error {
	ready := os.NewFile(uintptr(readyFD), "ready")
	if ready == nil {
		return usage("--%s %d is no open file", readyFlag, readyFD)
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
	if err := duplicate(null, []int{0, 1, 2}); err != nil {
		return err
	}
	if log != nil {
		if err := log.follow(1, 2); err != nil {
			return err
		}
	}
	_, err = ready.WriteString(liveWord)
	return err
}
