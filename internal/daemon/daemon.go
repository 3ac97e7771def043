// Package daemon runs batchfs mounts as child processes, for benchmarks and tests: it starts
// a daemon, waits until its tree can be read, and ends it.
package daemon

import (
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"
)

// A Process is a daemon that was started.
type Process struct {
	Cmd    *exec.Cmd
	Exited chan struct{} // closed when it has ended
	Err    error         // of its end, valid once Exited is closed
}

// Start runs a command that mounts in the foreground, and returns when its tree is live. The
// daemon reports that as it does to systemd. If it does not within patience, or ends before,
// Start returns the Process with an error; ending it is up to the caller.
func Start(cmd *exec.Cmd, patience time.Duration) (*Process, error) {
	socket, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Net: "unixgram"}) // the kernel picks an abstract address
	if err != nil {
		return nil, err
	}
	defer socket.Close()
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
	if err := socket.SetReadDeadline(time.Now().Add(patience)); err != nil && p.Running() {
		return p, err
	}
	message := make([]byte, 256)
	if n, err := socket.Read(message); err == nil && string(message[:n]) == "READY=1" {
		return p, nil
	}
	if p.Running() {
		return p, fmt.Errorf("the daemon is not ready after %s", patience)
	}
	return p, fmt.Errorf("the daemon ended: %v", p.Err)
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

// A Mount is a daemon and its mountpoint.
type Mount struct {
	*Process
	Dir string
}

// File returns the path of a batch in one of its forms.
func (m *Mount) File(shard, epoch, batch int, form string) string {
	return filepath.Join(m.Dir, fmt.Sprintf("shard-%d", shard), fmt.Sprintf("epoch-%d", epoch), fmt.Sprintf("batch-%05d.%s", batch, form))
}

// Document decodes a JSON document of the mount.
func (m *Mount) Document(name string, into any) error {
	text, err := os.ReadFile(filepath.Join(m.Dir, name))
	if err != nil {
		return err
	}
	return json.Unmarshal(text, into)
}

// Stats are the figures of stats.json that benchmarks use.
type Stats struct {
	ReadPath string `json:"read_path"`
	FUSE     struct {
		Reads int64 `json:"reads"`
	} `json:"fuse"`
}

// Stats reads stats.json.
func (m *Mount) Stats() (s Stats, err error) {
	err = m.Document(".batchfs/stats.json", &s)
	return s, err
}

// Unmount ends the daemon with the program's umount command, and waits for its end.
func (m *Mount) Unmount(program string) error {
	m.Resume()
	if out, err := exec.Command(program, "umount", m.Dir).CombinedOutput(); err != nil {
		return fmt.Errorf("umount: %w: %s", err, out)
	}
	<-m.Exited
	return nil
}

// Pause stops the daemon, so that its prefetching does not slow down other measurements. Its
// tree must not be touched until Resume.
func (m *Mount) Pause() { _ = m.Cmd.Process.Signal(syscall.SIGSTOP) }

// Resume continues the daemon. It has no effect on one that is not stopped.
func (m *Mount) Resume() { _ = m.Cmd.Process.Signal(syscall.SIGCONT) }
