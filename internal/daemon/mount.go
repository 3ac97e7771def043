package daemon

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"time"
)

// A Mount is a daemon and its mountpoint. The daemon is another process because one that reads
// its own mount can deadlock.
type Mount struct {
	*Process
	Dir     string
	Form    string // form of the batches that Batch names, such as nhwc
	program string
}

// patience is how long a mount of an indexed dataset may take to become live.
const patience = 10 * time.Minute

// NewMount runs the mount command of a program, with flags and a dataset as args, on a new
// directory below parent, or below the directory for temporary files. When ctx is done, the daemon
// is told to end. If the daemon ends early, the error is an *exec.ExitError with its messages.
func NewMount(ctx context.Context, parent, program string, args ...string) (*Mount, error) {
	dir, err := os.MkdirTemp(parent, "batchfs-bench-")
	if err != nil && parent == "" {
		err = fmt.Errorf("the directory for temporary files (TMPDIR): %w", err)
	}
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, program, slices.Concat([]string{"mount"}, args, []string{dir})...)
	var log bytes.Buffer
	cmd.Stderr = &log
	// Only Cancel ends the daemon, not an interrupt at the terminal.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
	cmd.Cancel = func() error {
		return errors.Join(cmd.Process.Signal(syscall.SIGTERM), cmd.Process.Signal(syscall.SIGCONT))
	}
	m := &Mount{Dir: dir, Form: "nhwc", program: program}
	if m.Process, err = Start(cmd, patience); err == nil {
		return m, nil
	}
	if m.Process != nil {
		_ = cmd.Process.Kill()
		<-m.Exited
	}
	_ = os.Remove(dir)
	if ended, ok := errors.AsType[*exec.ExitError](err); ok {
		ended.Stderr = log.Bytes()
	}
	return nil, fmt.Errorf("%w: %s", err, log.Bytes())
}

// Unmount ends the daemon with the program's umount command, waits for its end, and removes the
// mountpoint. If ctx is done, the daemon is ended without the command.
func (m *Mount) Unmount(ctx context.Context) error {
	m.Resume()
	if ctx.Err() == nil {
		if out, err := exec.Command(m.program, "umount", m.Dir).CombinedOutput(); err != nil {
			return fmt.Errorf("umount: %w: %s", err, out)
		}
	}
	<-m.Exited
	return os.Remove(m.Dir)
}

// Detach ends a mount that Unmount could not end, even if it is in use.
func (m *Mount) Detach() error {
	out, err := exec.Command(m.program, "umount", "--lazy", m.Dir).CombinedOutput()
	if err != nil {
		err = fmt.Errorf("umount --lazy: %w: %s", err, out)
	}
	return errors.Join(err, m.Cmd.Process.Signal(syscall.SIGTERM), os.Remove(m.Dir))
}

// Pause stops the daemon, so that its prefetching does not slow down other measurements. Its
// tree must not be touched until Resume.
func (m *Mount) Pause() { _ = m.Cmd.Process.Signal(syscall.SIGSTOP) }

// Resume continues the daemon. It has no effect on one that is not stopped.
func (m *Mount) Resume() { _ = m.Cmd.Process.Signal(syscall.SIGCONT) }

// Batch returns the path of a batch.
func (m *Mount) Batch(shard, epoch, batch int) string { return m.File(shard, epoch, batch, m.Form) }

// File returns the path of one form of a batch.
func (m *Mount) File(shard, epoch, batch int, form string) string {
	return filepath.Join(m.Dir, fmt.Sprintf("shard-%d/epoch-%d/batch-%05d.%s", shard, epoch, batch, form))
}

// Document decodes a JSON document of the mount.
func (m *Mount) Document(name string, into any) error {
	text, err := os.ReadFile(filepath.Join(m.Dir, name))
	if err != nil {
		return err
	}
	return json.Unmarshal(text, into)
}
