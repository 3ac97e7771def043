package main

import (
	"bufio"
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

// generate makes the photos and their index, once.
func (s *setup) generate(ctx context.Context) error {
	if s.photos != "" {
		files, err := s.imageFiles()
		s.images = len(files)
		return err
	}
	s.photos = filepath.Join(s.work, "photos")
	for _, args := range [][]string{
		{"gen", "--out", s.photos, "--images", strconv.Itoa(s.images), "--classes", "16"},
		{"index", s.photos},
	} {
		cmd := exec.CommandContext(ctx, s.batchfs, args...)
		cmd.Stderr = os.Stderr
		if err := cmd.Run(); err != nil {
			return fmt.Errorf("batchfs %s: %w", args[0], err)
		}
	}
	return nil
}

// A mounted is a running daemon.
type mounted struct {
	dir string
	cmd *exec.Cmd
}

// mount starts a daemon in the foreground and returns when its tree is there.
func (s *setup) mount(ctx context.Context, dataset string, flags ...string) (*mounted, error) {
	dir, err := os.MkdirTemp(s.work, "mnt-")
	if err != nil {
		return nil, err
	}
	args := append([]string{"mount"}, flags...)
	cmd := exec.CommandContext(ctx, s.batchfs, append(args, dataset, dir)...)
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
	m := &mounted{dir: dir, cmd: cmd}
	died := make(chan error, 1)
	go func() { died <- cmd.Wait() }()
	select {
	case <-notify.ready:
	case err := <-died:
		return nil, fmt.Errorf("the daemon ended (%v): %s", err, log.String())
	}
	go func() { <-died }()
	return m, nil
}

// unmount ends the daemon.
func (m *mounted) unmount(s *setup) error {
	out, err := exec.Command(s.batchfs, "umount", m.dir).CombinedOutput()
	if err != nil {
		return fmt.Errorf("umount: %w: %s", err, out)
	}
	return nil
}

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
	text, err := os.ReadFile(filepath.Join(m.dir, ".batchfs", "stats.json"))
	if err != nil {
		return st, err
	}
	return st, json.Unmarshal(text, &st)
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

// imageFiles lists the photos.
func (s *setup) imageFiles() ([]string, error) {
	return filepath.Glob(filepath.Join(s.photos, "*", "*.jpg"))
}

// runCeiling decodes files with the bare C program on all cores: images a second.
func (s *setup) runCeiling(ctx context.Context, threads, passes int, files []string) (float64, error) {
	args := append([]string{strconv.Itoa(threads), strconv.Itoa(passes)}, files...)
	out, err := exec.CommandContext(ctx, s.ceiling, args...).Output()
	if err != nil {
		return 0, fmt.Errorf("ceiling: %w", err)
	}
	var images, seconds float64
	if _, err := fmt.Sscan(string(out), &images, &seconds); err != nil {
		return 0, err
	}
	return images / seconds, nil
}

// median returns the middle of several figures, with their range in words.
func median(x []float64) (float64, string) {
	slices.Sort(x)
	return x[len(x)/2], fmt.Sprintf("(%.3f to %.3f)", x[0], x[len(x)-1])
}

func processor() string {
	f, err := os.Open("/proc/cpuinfo")
	if err != nil {
		return "unknown processor"
	}
	defer f.Close()
	for in := bufio.NewScanner(f); in.Scan(); {
		if name, ok := strings.CutPrefix(in.Text(), "model name"); ok {
			return strings.TrimLeft(name, "\t :")
		}
	}
	return "unknown processor"
}

func kernel() string {
	text, err := os.ReadFile("/proc/sys/kernel/osrelease")
	if err != nil {
		return "unknown"
	}
	return strings.TrimSpace(string(text))
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
