package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
)

// A daemon is the same command line run again. Its parent waits until its mount is live, so that
// `batchfs mount --daemon && ls mnt` works, and passes on the exit status of a child that ended
// earlier. Until then the child talks to the user through the descriptors it inherited.
const readyFlag = "ready-fd" // tells the child the descriptor by which it says so

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
	words := slices.Concat([]string{"batchfs", "mount"}, flags, []string{"--daemon=false", fmt.Sprintf("--%s=%d", readyFlag, liveFD)})
	child := &exec.Cmd{Path: program, Stdout: c.out, Stderr: c.err}
	if owner != nil {
		words = append(words, fmt.Sprintf("--%s=%d", ownerFlag, liveFD+1))
		child.ExtraFiles = []*os.File{owner}
	}
	child.Args = slices.Concat(words, []string{"--"}, args)
	return endOf(startLive(ctx, child))
}

// endOf converts the error of a daemon that ended before its mount was live into this process's.
func endOf(err error) error {
	if exit, ok := errors.AsType[*exec.ExitError](err); ok && exit.Exited() {
		return said(exit.ExitCode()) // the daemon already printed why
	}
	return err
}
