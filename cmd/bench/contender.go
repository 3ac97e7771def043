package main

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/batchfs/batchfs/internal/daemon"
)

// A contender is a process that gets batches in its own way and consumes them.
// peers/contender.py documents the protocol. While it is not its turn, it is stopped
// together with all processes it started.
type contender struct {
	name   string
	what   string  // its description of itself, with versions and settings
	ahead  int     // batches it makes while nothing reads
	wanted float64 // speedup of batchfs over it
	mount  *daemon.Mount
	cmd    *exec.Cmd
	in     io.WriteCloser
	out    *bufio.Scanner
	log    *os.File  // its standard error
	pss    []float64 // of all its processes, at the end of each turn, in MiB
	shm    []float64 // what they have open in /dev/shm then, in MiB
}

// startContender runs one of the peers' scripts and waits until it is ready. If it cannot
// run here, the error is the one it reports.
func (s *setup) startContender(ctx context.Context, name, script string, args ...string) (*contender, error) {
	c := &contender{name: name}
	c.cmd = s.script(ctx, script, args...)
	c.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	c.cmd.Cancel = func() error { return syscall.Kill(-c.cmd.Process.Pid, syscall.SIGKILL) }
	var err error
	if c.log, err = os.CreateTemp(s.work, "contender-"); err != nil {
		return nil, err
	}
	c.cmd.Stderr = c.log
	if c.in, err = c.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := c.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	c.out = bufio.NewScanner(out)
	if err := c.cmd.Start(); err != nil {
		return nil, err
	}
	hello, err := c.answer()
	if err != nil {
		c.stop()
		return nil, err
	}
	c.what, c.ahead = hello.What, hello.Ahead
	c.signal(syscall.SIGSTOP)
	return c, nil
}

// script is a command that runs one of the peers' scripts.
func (s *setup) script(ctx context.Context, name string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, s.python, append([]string{filepath.Join(s.peers, name)}, args...)...)
	cmd.Env = append(os.Environ(), "PYTHONDONTWRITEBYTECODE=1", "PYTHONWARNINGS=ignore")
	return cmd
}

// An answer is one line of output: a description first, then measurements, or why there are
// none.
type answer struct {
	What            string
	Ahead           int
	Images, Seconds float64
	Error           string
}

func (c *contender) answer() (a answer, err error) {
	if !c.out.Scan() {
		return a, fmt.Errorf("it ended without an answer: %s", c.lastWords())
	}
	if err := json.Unmarshal(c.out.Bytes(), &a); err != nil {
		return a, fmt.Errorf("it answered %q", c.out.Text())
	}
	if a.Error != "" {
		return a, errors.New(a.Error)
	}
	return a, nil
}

// lastWords is the last line it wrote to standard error.
func (c *contender) lastWords() string {
	text, _ := os.ReadFile(c.log.Name())
	return lastLine(text)
}

func lastLine(text []byte) string {
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	return cmp.Or(lines[len(lines)-1], "it printed nothing")
}

// measure consumes the given number of batches during training, or more, and returns images per
// second. Many workers finish their batches at about the same time: fewer batches than they make
// ahead would be a part of a burst, or of the wait for one.
func (c *contender) measure(batches int) (float64, error) {
	batches = max(batches, c.ahead)
	c.signal(syscall.SIGCONT)
	defer c.signal(syscall.SIGSTOP)
	if _, err := fmt.Fprintln(c.in, c.ahead, batches); err != nil {
		return 0, err
	}
	took, err := c.answer()
	if err != nil {
		return 0, err
	}
	pids := group(c.cmd.Process.Pid)
	if c.mount != nil {
		pids = append(pids, c.mount.Cmd.Process.Pid)
	}
	h, err := memoryOf(pids)
	c.pss, c.shm = append(c.pss, h.pss/(1<<20)), append(c.shm, h.shm/(1<<20))
	return took.Images / took.Seconds, err
}

func (c *contender) signal(sig syscall.Signal) {
	_ = syscall.Kill(-c.cmd.Process.Pid, sig)
	if c.mount != nil {
		_ = c.mount.Cmd.Process.Signal(sig)
	}
}

// stop kills it and all processes it started.
func (c *contender) stop() {
	_ = c.cmd.Cancel()
	c.in.Close()
	_ = c.cmd.Wait()
	c.log.Close()
	if c.mount != nil {
		c.mount.Resume()
	}
}
