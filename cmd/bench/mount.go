package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/batchfs/batchfs/internal/daemon"
)

// warm makes a mount read files through the page cache, as C does, without keeping a second
// copy of them.
var warm = []string{"--io", "buffered", "--cache-size", "0"}

// patience is how long a mount may take to become live.
const patience = 10 * time.Minute

// mount starts a daemon that reads warm files, see start.
func (s *setup) mount(ctx context.Context, dataset string, flags ...string) (*daemon.Mount, error) {
	return s.start(ctx, nil, dataset, append(slices.Clone(warm), flags...)...)
}

// start starts a daemon, in a control group if given.
func (s *setup) start(ctx context.Context, group *cgroup, dataset string, flags ...string) (*daemon.Mount, error) {
	dir, err := os.MkdirTemp(s.work, "mnt-")
	if err != nil {
		return nil, err
	}
	command := group.command(slices.Concat([]string{s.batchfs, "mount"}, flags, []string{dataset, dir}))
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	var log bytes.Buffer
	cmd.Stdout, cmd.Stderr = &log, &log
	p, err := daemon.Start(cmd, patience)
	if err != nil {
		return nil, fmt.Errorf("%w: %s", err, log.String())
	}
	return &daemon.Mount{Process: p, Dir: dir}, nil
}

// mounted runs work with a mount of its own.
func (s *setup) mounted(ctx context.Context, dataset string, flags []string, work func(m *daemon.Mount) error) error {
	m, err := s.start(ctx, nil, dataset, flags...)
	if err != nil {
		return err
	}
	err = work(m)
	return errors.Join(err, m.Unmount(s.batchfs))
}

// peak is a daemon's peak memory so far: RSS, including shared pages.
func peak(m *daemon.Mount) (int64, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", m.Cmd.Process.Pid))
	if err != nil {
		return 0, err
	}
	_, rest, _ := strings.Cut(string(text), "VmHWM:")
	kb, err := strconv.ParseInt(strings.Fields(rest + " ?")[0], 10, 64)
	return kb << 10, err
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
