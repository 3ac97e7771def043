package main

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
	"strconv"
	"strings"
	"syscall"
)

// warm makes a mount read files through the page cache, as C does, without keeping a second
// copy of them.
var warm = []string{"--io", "buffered", "--cache-size", "0"}

// A mounted is a running daemon.
type mounted struct {
	dir   string
	cmd   *exec.Cmd
	ended chan struct{} // closed when it ended
}

// mount starts a daemon that reads warm files, see start.
func (s *setup) mount(ctx context.Context, dataset string, flags ...string) (*mounted, error) {
	return s.start(ctx, nil, dataset, append(slices.Clone(warm), flags...)...)
}

// start starts a daemon in the foreground, in a control group if given, and returns when
// its tree is mounted.
func (s *setup) start(ctx context.Context, group *cgroup, dataset string, flags ...string) (*mounted, error) {
	dir, err := os.MkdirTemp(s.work, "mnt-")
	if err != nil {
		return nil, err
	}
	command := group.command(append(append([]string{s.batchfs, "mount"}, flags...), dataset, dir))
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	var log bytes.Buffer
	cmd.Stdout, cmd.Stderr = &log, &log
	notify, err := newNotify(s.work)
	if err != nil {
		return nil, err
	}
	defer notify.Close()
	cmd.Env = append(os.Environ(), "NOTIFY_SOCKET="+notify.path)
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	m := &mounted{dir: dir, cmd: cmd, ended: make(chan struct{})}
	died := make(chan error, 1)
	go func() {
		died <- cmd.Wait()
		close(m.ended)
	}()
	select {
	case <-notify.ready:
	case err := <-died:
		return nil, fmt.Errorf("the daemon ended (%v): %s", err, log.String())
	}
	return m, nil
}

// unmount ends the daemon.
func (m *mounted) unmount(s *setup) error {
	m.resume()
	out, err := exec.Command(s.batchfs, "umount", m.dir).CombinedOutput()
	if err != nil {
		return fmt.Errorf("umount: %w: %s", err, out)
	}
	<-m.ended
	return nil
}

// pause stops the daemon, so that its prefetching does not slow down other measurements.
// Its tree must not be touched until resume.
func (m *mounted) pause() { _ = m.cmd.Process.Signal(syscall.SIGSTOP) }

// resume continues the daemon. It has no effect on one that is not stopped.
func (m *mounted) resume() { _ = m.cmd.Process.Signal(syscall.SIGCONT) }

func (m *mounted) batch(shard, epoch, batch int, form string) string {
	return filepath.Join(m.dir, fmt.Sprintf("shard-%d", shard), fmt.Sprintf("epoch-%d", epoch), fmt.Sprintf("batch-%05d.%s", batch, form))
}

// stats are the figures of stats.json used here.
type stats struct {
	ReadPath string `json:"read_path"`
	FUSE     struct {
		Reads int64 `json:"reads"`
	} `json:"fuse"`
}

func (m *mounted) stats() (st stats, err error) {
	err = readJSON(filepath.Join(m.dir, ".batchfs", "stats.json"), &st)
	return st, err
}

// epochSize returns the number of batches and samples of shard 0 in an epoch.
func (m *mounted) epochSize() (batches, samples int, err error) {
	var document struct{ Batches, Valid int }
	err = readJSON(filepath.Join(m.dir, "shard-0", "epoch-0", "epoch.json"), &document)
	return document.Batches, document.Valid, err
}

func readJSON(path string, into any) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	return json.Unmarshal(text, into)
}

// peak is the daemon's peak memory so far: RSS, including shared pages.
func (m *mounted) peak() (int64, error) { return m.status("VmHWM:") }

func (m *mounted) status(key string) (int64, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", m.cmd.Process.Pid))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, key); ok {
			kb, err := strconv.ParseInt(strings.Fields(rest)[0], 10, 64)
			return kb << 10, err
		}
	}
	return 0, errors.New("no " + key + " in /proc")
}

// tmpfs mounts a tmpfs with the given huge page option: as for batches, or a plain one.
func (s *setup) tmpfs(huge string) (dir string, unmount func(), err error) {
	if dir, err = os.MkdirTemp(s.work, "tmpfs-"); err != nil {
		return "", nil, err
	}
	if err = syscall.Mount("bench", dir, "tmpfs", 0, "huge="+huge); err != nil {
		return "", nil, fmt.Errorf("mount a tmpfs: %w", err)
	}
	return dir, func() { _ = syscall.Unmount(dir, syscall.MNT_DETACH) }, nil
}
