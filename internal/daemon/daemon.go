// Package daemon runs batchfs mounts as child processes, for benchmarks and tests: it starts a
// daemon, waits until its tree can be read, and ends it.
package daemon

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"time"

	"golang.org/x/sys/unix"
)

// A Process is a daemon that was started.
type Process struct {
	Cmd    *exec.Cmd
	Exited chan struct{} // closed when it has ended
	Err    error         // how it ended; valid once Exited is closed
}

// errNotReady: the daemon ended without an error, but was never ready.
var errNotReady = errors.New("it was not ready")

// Start runs a command that mounts in the foreground, and returns when its tree is live. The daemon
// reports this as it does to systemd. If it does not within patience, or ends before, Start returns
// the Process with an error; the caller must end it.
func Start(cmd *exec.Cmd, patience time.Duration) (*Process, error) {
	socket, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Net: "unixgram"}) // the kernel picks an abstract address
	if err != nil {
		return nil, err
	}
	defer socket.Close()
	if err := passCredentials(socket); err != nil {
		return nil, err
	}
	if cmd.Env == nil {
		cmd.Env = os.Environ()
	}
	cmd.Env = append(cmd.Env, "NOTIFY_SOCKET="+socket.LocalAddr().String())
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	p := &Process{Cmd: cmd, Exited: make(chan struct{})}
	go func() {
		p.Err = cmd.Wait()
		close(p.Exited)
		socket.Close() // ends the read below
	}()
	_ = socket.SetReadDeadline(time.Now().Add(patience)) // fails only if the read will, too
	if p.hearReady(socket) {
		return p, nil
	}
	if p.Running() {
		return p, fmt.Errorf("the daemon is not ready after %s", patience)
	}
	return p, fmt.Errorf("the daemon ended before its mount was live: %w", cmp.Or(p.Err, errNotReady))
}

// passCredentials has the kernel say who sends each message: any user of the machine can send some
// to an abstract address.
func passCredentials(socket *net.UnixConn) error {
	raw, err := socket.SyscallConn()
	if err != nil {
		return err
	}
	var refused error
	err = raw.Control(func(fd uintptr) {
		refused = os.NewSyscallError("setsockopt", unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_PASSCRED, 1))
	})
	return cmp.Or(err, refused)
}

// hearReady waits until the daemon, or another process of this user, says that the tree is live. It
// returns false once the socket is closed, or its deadline is over.
func (p *Process) hearReady(socket *net.UnixConn) bool {
	message, about := make([]byte, 256), make([]byte, unix.CmsgSpace(unix.SizeofUcred))
	for {
		n, aboutBytes, _, _, err := socket.ReadMsgUnix(message, about)
		if err != nil {
			return false
		}
		control, err := unix.ParseSocketControlMessage(about[:aboutBytes])
		if err != nil || len(control) != 1 || string(message[:n]) != "READY=1" {
			continue
		}
		sender, err := unix.ParseUnixCredentials(&control[0])
		if err == nil && (int(sender.Pid) == p.Cmd.Process.Pid || int(sender.Uid) == os.Geteuid()) {
			return true
		}
	}
}

// Running reports whether the daemon has not ended yet.
func (p *Process) Running() bool {
	select {
	case <-p.Exited:
		return false
	default:
		return true
	}
}
