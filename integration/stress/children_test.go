package stress

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/batchfs/batchfs/internal/testkit"
)

// A child is a client process.
type child struct {
	index, life int
	cmd         *exec.Cmd
	said        bytes.Buffer // its findings
	complained  string       // path of its standard error
	ended       chan struct{}
	err         error
}

// startClient starts a process of a client, its first one or one after another was killed.
func (r *round) startClient(i, life int) *child {
	c := &child{index: i, life: life, ended: make(chan struct{}), complained: r.file(fmt.Sprintf("client-%d.log", i))}
	c.cmd = partCommand("part-client", r.file("brief.json"), strconv.Itoa(i), strconv.Itoa(life))
	log, err := os.OpenFile(c.complained, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err == nil {
		c.cmd.Stdout, c.cmd.Stderr = &c.said, log
		c.cmd.WaitDelay = patience / 4 // what a client has started may hold its output for a while
		err = c.cmd.Start()
		log.Close()
	}
	if err != nil {
		r.find("a client does not start: %v", err)
		c.err = err
		close(c.ended)
		return c
	}
	go func() {
		c.err = c.cmd.Wait()
		close(c.ended)
	}()
	return c
}

func (c *child) alive() bool {
	select {
	case <-c.ended:
		return false
	default:
		return true
	}
}

// judge evaluates how a client ended.
func (r *round) judge(c *child) (killed bool) {
	var exit *exec.ExitError
	if errors.As(c.err, &exit) {
		status := exit.Sys().(syscall.WaitStatus)
		if status.Signaled() && status.Signal() == syscall.SIGKILL {
			return true
		}
	}
	if c.said.Len() > 0 {
		r.find("%s", c.said.String())
	} else if c.err != nil {
		text, _ := os.ReadFile(c.complained)
		r.find("client %d ended with %v\n%s", c.index, c.err, tail(string(text), 40))
	}
	return false
}

// revive restarts clients that were killed.
func (r *round) revive() {
	for i, c := range r.clients {
		if c.alive() {
			continue
		}
		r.weather.busy(c.index, 0)
		if killed := r.judge(c); !killed {
			if !r.failed() {
				r.find("client %d has ended", c.index)
			}
			return
		}
		r.clients[i] = r.startClient(c.index, c.life+1)
	}
}

// endClient waits for a client that was told to stop.
func (r *round) endClient(c *child) {
	_ = c.cmd.Process.Signal(syscall.SIGCONT)
	select {
	case <-c.ended:
	case <-time.After(2 * patience):
		if !r.failed() {
			r.find("client %d does not end", c.index)
			r.daemon.Dump()
		}
		_ = c.cmd.Process.Kill()
		select {
		case <-c.ended:
		case <-time.After(patience):
			r.find("client %d does not even end when it is killed", c.index)
			return
		}
	}
	r.weather.busy(c.index, 0)
	r.judge(c)
}

// watch finds actions that hang and a daemon that takes too much memory, until told to
// stop.
func (r *round) watch(stop chan struct{}) {
	for {
		select {
		case <-stop:
			return
		case <-time.After(200 * time.Millisecond):
		}
		r.mu.Lock()
		d := r.running
		r.mu.Unlock()
		for i := range roundClients {
			since := r.weather.get(i, busySince)
			if since == 0 {
				continue
			}
			took := time.Duration(monotonic() - int64(since))
			if took > patience/6 && r.lostDaemon(int64(since)) {
				// Linux lets a thread that was touching a mapping when its daemon died fault
				// for ever. Killing it is all that can be done.
				r.mu.Lock()
				r.report[lost]++
				r.mu.Unlock()
				r.weather.busy(i, 0)
				_ = r.clients[i].cmd.Process.Kill()
				continue
			}
			if took > patience {
				r.find("client %d has been busy with one action for %v\n%s", i, took, r.clients[i].stacks())
				d.Dump()
				return
			}
		}
		if used := d.resident(); !testkit.RaceDetector() && used > r.Settings.Limit+residentSlack {
			r.find("the daemon takes %d MiB, with a limit of %d MiB", used>>20, r.Settings.Limit>>20)
			return
		}
	}
}

// stacks returns where the threads of a client are in the kernel, and has the client print on
// standard error where its goroutines are.
func (c *child) stacks() string {
	var text strings.Builder
	tasks, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*", c.cmd.Process.Pid))
	for _, task := range tasks {
		for _, name := range []string{"wchan", "syscall", "stack"} {
			data, _ := os.ReadFile(filepath.Join(task, name))
			fmt.Fprintf(&text, "%s %s: %s\n", filepath.Base(task), name, data)
		}
	}
	_ = c.cmd.Process.Signal(syscall.SIGQUIT)
	return text.String()
}

// lostDaemon says whether a daemon that served mappings by itself died since a moment.
func (r *round) lostDaemon(since int64) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return !r.Settings.passthrough() && r.killed > since
}

// residentSlack is what a daemon may take beside what its limit counts: Go's runtime and
// its garbage.
const residentSlack = 96 << 20
