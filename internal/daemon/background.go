package daemon

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

// LiveFD is the descriptor of a pipe in a process that Spawn started. The process says there that
// its mount is live. Its own ExtraFiles follow.
const LiveFD = 3

// liveWord is what it says.
const liveWord = "live\n"

// ErrEarly means that a process ended before its mount was live.
var ErrEarly = errors.New("the daemon ended before its mount was live")

// Spawn starts a command that mounts, in a session of its own, and waits until its mount is live:
// it calls Detach and Live. Until then it may talk to the user through the descriptors that it was
// given. If it ends before, the error wraps ErrEarly, and maybe an *exec.ExitError. If ctx ends,
// the process is told to end.
func Spawn(ctx context.Context, cmd *exec.Cmd) error {
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
		return fmt.Errorf("%w: %w", ErrEarly, err)
	}
	return ErrEarly
}

// Detach separates this process from the one that started it: it leaves the directory it was
// started in, and the terminal.
func Detach() error {
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
	return os.Chdir("/")
}

// Live tells the process that waits in Spawn that the mount is live.
func Live(fd int) error {
	ready := os.NewFile(uintptr(fd), "ready")
	defer ready.Close()
	_, err := ready.WriteString(liveWord)
	return err
}

// Notify tells systemd the state of a mount, if socket is where it asked for that (Type=notify).
// It is no error if nothing listens: the mount does not depend on it.
func Notify(socket, state string) {
	if socket == "" {
		return
	}
	conn, err := net.Dial("unixgram", socket)
	if err != nil {
		return
	}
	defer conn.Close()
	_, _ = conn.Write([]byte(state))
}
