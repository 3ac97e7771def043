package testkit

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/batchfs/batchfs/internal/daemon"
)

// RaceDetector reports whether this test, and the daemons that it builds, run with the race
// detector.
func RaceDetector() bool { return BuildSetting("-race") == "true" }

// BatchMemory reports whether a link in /proc/PID/fd leads to memory of a daemon's batches.
func BatchMemory(target string) bool {
	return strings.HasPrefix(target, "/#") && strings.HasSuffix(target, " (deleted)") // O_TMPFILE
}

// OpenFiles lists the descriptors of a daemon, sorted, except for batch memory, which is pooled,
// Go's poller, which opens them on first use, and those that begin with one of but.
func OpenFiles(pid int, but ...string) (open []string, err error) {
	dir := fmt.Sprintf("/proc/%d/fd", pid)
	entries, err := os.ReadDir(dir)
	for _, e := range entries {
		target, err := os.Readlink(filepath.Join(dir, e.Name()))
		if err != nil || BatchMemory(target) || target == "anon_inode:[eventpoll]" || target == "anon_inode:[eventfd]" ||
			slices.ContainsFunc(but, func(prefix string) bool { return strings.HasPrefix(target, prefix) }) {
			continue
		}
		kind, _, _ := strings.Cut(target, ":[") // without the number of a pipe or socket
		// If another mount has replaced the file, it is still the same descriptor.
		open = append(open, strings.TrimSuffix(kind, " (deleted)"))
	}
	slices.Sort(open)
	return open, err
}

// Status is the sum of some lines of /proc/PID/status, in bytes; 0 for a process that has ended.
func Status(pid int, names ...string) (sum int64) {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	for line := range strings.Lines(string(text)) {
		if name, rest, _ := strings.Cut(line, ":"); slices.Contains(names, name) {
			kib, _ := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(rest), " kB"), 10, 64)
			sum += kib << 10
		}
	}
	return sum
}

// Complaint returns an error if a daemon's log has a line that no log may have.
func Complaint(log string) error {
	for _, word := range []string{"DATA RACE", "panic", "fatal error", "SIGSEGV", "SIGBUS"} {
		if strings.Contains(log, word) {
			return fmt.Errorf("the daemon's log speaks of a %s", word)
		}
	}
	return nil
}

// A Daemon is a mount that a test runs in another process.
type Daemon struct {
	*daemon.Process
	AtRest   []string // descriptors open when its tree could be read
	log      string   // path
	since    int64    // where its part of the log begins
	patience time.Duration
}

// StartDaemon runs a command that mounts, and returns when its tree can be read. The daemon appends
// to a log file, unless the command says otherwise, and counts as hung after patience. After an
// error, the daemon has ended, or is nil if it did not even start.
func StartDaemon(cmd *exec.Cmd, log string, patience time.Duration) (*Daemon, error) {
	out, err := os.OpenFile(log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, err
	}
	defer out.Close()
	d := &Daemon{log: log, patience: patience}
	if info, err := out.Stat(); err == nil {
		d.since = info.Size()
	}
	if cmd.Stderr == nil {
		cmd.Stdout, cmd.Stderr = out, out
	}
	if d.Process, err = daemon.Start(cmd, patience); d.Process == nil {
		return nil, err
	}
	if err == nil {
		d.AtRest, err = OpenFiles(d.PID())
		return d, err
	}
	if d.Running() {
		d.Dump()
	}
	return d, fmt.Errorf("%s: %w\n%s", strings.Join(cmd.Args, " "), err, d.Logged())
}

// PID is the process's number.
func (d *Daemon) PID() int { return d.Cmd.Process.Pid }

// Logged returns the daemon's log so far.
func (d *Daemon) Logged() string {
	text, err := os.ReadFile(d.log)
	if err != nil {
		return err.Error()
	}
	return string(text[min(d.since, int64(len(text))):])
}

// Signal sends the daemon a signal, unless it has ended.
func (d *Daemon) Signal(s syscall.Signal) {
	if d.Running() {
		_ = d.Cmd.Process.Signal(s)
	}
}

// Wait returns when the daemon has ended. If it hangs, its goroutines are dumped.
func (d *Daemon) Wait() error {
	select {
	case <-d.Exited:
		return nil
	case <-time.After(d.patience):
		d.Dump()
		return errors.New("the daemon does not end")
	}
}

// Dump ends the daemon, even if it hangs, and makes it write its goroutines to the log.
func (d *Daemon) Dump() {
	d.Signal(syscall.SIGCONT)
	d.Signal(syscall.SIGQUIT)
	select {
	case <-d.Exited:
	case <-time.After(d.patience / 4):
		d.Signal(syscall.SIGKILL)
		<-d.Exited
	}
}

// Leaked lists the daemon's open descriptors that it did not have at rest, except for those in but.
func (d *Daemon) Leaked(but ...string) ([]string, error) {
	open, err := OpenFiles(d.PID(), but...)
	for _, name := range d.AtRest {
		if i := slices.Index(open, name); i >= 0 {
			open = slices.Delete(open, i, i+1)
		}
	}
	return open, err
}
