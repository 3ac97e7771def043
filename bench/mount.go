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

// warm makes a mount read files through the page cache, where they are, as C does,
// and keep no second copy of them.
var warm = []string{"--io", "buffered", "--cache-size", "0"}

// A mounted is a running daemon.
type mounted struct {
	dir   string
	cmd   *exec.Cmd
	ended chan struct{} // closed when it has
}

// mount starts a daemon that reads warm files, see start.
func (s *setup) mount(ctx context.Context, dataset string, flags ...string) (*mounted, error) {
	return s.start(ctx, nil, dataset, append(slices.Clone(warm), flags...)...)
}

// start starts a daemon in the foreground, in a control group where there is one, and
// returns when its tree is there.
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

// pause stops the daemon, so that nothing it does ahead of its reader slows down
// what is measured meanwhile. Its tree must not be touched until resume.
func (m *mounted) pause() { _ = m.cmd.Process.Signal(syscall.SIGSTOP) }

// resume lets it go on. A daemon that is not stopped does not notice.
func (m *mounted) resume() { _ = m.cmd.Process.Signal(syscall.SIGCONT) }

func (m *mounted) batch(shard, epoch, batch int, form string) string {
	return filepath.Join(m.dir, fmt.Sprintf("shard-%d", shard), fmt.Sprintf("epoch-%d", epoch), fmt.Sprintf("batch-%05d.%s", batch, form))
}

// stats are the figures of stats.json that are looked at here.
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

// epochSize is how many batches and samples shard 0 has in an epoch.
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

// peak is the most memory the daemon has held so far, RSS with shared pages.
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

// tmpfs mounts a tmpfs of the kind that batches live in, or a plain one.
func (s *setup) tmpfs(huge string) (dir string, unmount func(), err error) {
	if dir, err = os.MkdirTemp(s.work, "tmpfs-"); err != nil {
		return "", nil, err
	}
	if err = syscall.Mount("bench", dir, "tmpfs", 0, "huge="+huge); err != nil {
		return "", nil, fmt.Errorf("mount a tmpfs: %w", err)
	}
	return dir, func() { _ = syscall.Unmount(dir, syscall.MNT_DETACH) }, nil
}
