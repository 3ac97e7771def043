package main

import (
	"bufio"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/batchfs/batchfs/internal/daemon"
)

// c decodes files with the bare C program.
func (s *stage) c(threads int, files []string) contender {
	return ready(func() figures {
		args := append([]string{strconv.Itoa(threads), "1"}, files...)
		out, err := exec.CommandContext(s.ctx, s.ceiling, args...).Output()
		if err != nil {
			check(fmt.Errorf("ceiling: %w", err))
		}
		var images, seconds float64
		must(fmt.Sscan(string(out), &images, &seconds))
		return figures{rate: images / seconds}
	})
}

// script is a command that runs one of the peers' scripts.
func (s *stage) script(name string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(s.ctx, s.python, append([]string{filepath.Join(s.peers, name)}, args...)...)
	cmd.Env = append(os.Environ(), "PYTHONDONTWRITEBYTECODE=1", "PYTHONWARNINGS=ignore")
	return cmd
}

// A consumer is a Python process that gets batches in its own way and consumes them.
// peers/contender.py documents the protocol. While it is not its turn, it is stopped
// together with all processes it started.
type consumer struct {
	what  string        // its description of itself, with versions and settings
	ahead int           // batches it makes while nothing reads
	pause time.Duration // after each batch
	mount *daemon.Mount
	cmd   *exec.Cmd
	in    io.WriteCloser
	out   *bufio.Scanner
	log   *os.File // its standard error
}

// consume runs one of the peers' scripts until the current work is over, and waits until it is
// ready. If it cannot run here, the error is the one it reports.
func (s *stage) consume(script string, args ...string) *consumer {
	c := &consumer{cmd: s.script(script, args...), log: must(os.CreateTemp(s.work, "consumer-"))}
	c.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	c.cmd.Cancel = func() error { return syscall.Kill(-c.cmd.Process.Pid, syscall.SIGKILL) }
	c.cmd.Stderr = c.log
	c.in, c.out = must(c.cmd.StdinPipe()), bufio.NewScanner(must(c.cmd.StdoutPipe()))
	check(c.cmd.Start())
	s.later(func() error { c.stop(); return nil })
	if err := catch(func() { hello := c.answer(); c.what, c.ahead = hello.What, hello.Ahead }); err != nil {
		c.stop()
		check(err)
	}
	c.signal(syscall.SIGSTOP)
	return c
}

// An answer is one line of output: a description first, then measurements, or why there are
// none.
type answer struct {
	What            string
	Ahead           int
	Images, Seconds float64
	Error           string
}

func (c *consumer) answer() (a answer) {
	if !c.out.Scan() {
		text, _ := os.ReadFile(c.log.Name())
		check(fmt.Errorf("it ended without an answer: %s", lastLine(text)))
	}
	if json.Unmarshal(c.out.Bytes(), &a) != nil {
		check(fmt.Errorf("it answered %q", c.out.Text()))
	}
	if a.Error != "" {
		check(errors.New(a.Error))
	}
	return a
}

// lastLine is the last of the lines that a process has printed.
func lastLine(text []byte) string {
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	return cmp.Or(lines[len(lines)-1], "it printed nothing")
}

// Figures of a consumer: the PSS of all its processes at the end of a turn, and what they have
// open in /dev/shm then.
var pss, shm = figure{"pss", "MiB", 1. / (1 << 20)}, figure{"shm", "MiB", 1. / (1 << 20)}

// turn consumes the given number of batches during training, or more. Many workers finish their
// batches at about the same time: measuring fewer batches than they make ahead would measure a part
// of a burst, or of the wait for one.
func (c *consumer) turn(batches int) figures {
	batches = max(batches, c.ahead)
	c.signal(syscall.SIGCONT)
	defer c.signal(syscall.SIGSTOP)
	must(fmt.Fprintln(c.in, c.ahead, batches, c.pause.Seconds()))
	took := c.answer()
	pids := group(c.cmd.Process.Pid)
	if c.mount != nil {
		pids = append(pids, c.mount.Cmd.Process.Pid)
	}
	h := memoryOf(pids)
	return figures{rate: took.Images / took.Seconds, pss: h.pss, shm: h.shm}
}

func (c *consumer) signal(sig syscall.Signal) {
	_ = syscall.Kill(-c.cmd.Process.Pid, sig)
	if c.mount != nil {
		_ = c.mount.Cmd.Process.Signal(sig)
	}
}

// stop kills it and all processes it started. A second call has no effect.
func (c *consumer) stop() {
	if c.cmd.ProcessState == nil {
		_ = c.cmd.Cancel()
		c.in.Close()
		_ = c.cmd.Wait() // it was killed
		c.log.Close()
	}
}
