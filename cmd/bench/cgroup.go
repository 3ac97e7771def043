package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// A cgroup limits the read rate from a device, the processor time and the memory, with the page
// cache, of the processes in it.
type cgroup struct {
	directories           []string // that hold it: one for each controller, or one in version 2
	throttle, quota, most string   // files for limits
	peak                  string   // the file that has the peak memory
	rate, share           string   // formats of a line in throttle and in quota
}

// quotaPeriod is the kernel's default, in microseconds.
const quotaPeriod = 100000

// inGroup makes a control group that lasts until the current work is over, if this machine allows
// it, and a script that runs a program in it.
func inGroup(b *bench, program string) (g *cgroup, script string) {
	const root = "/sys/fs/cgroup"
	name := fmt.Sprintf("batchfs-bench-%d-%d", os.Getpid(), len(b.ends))
	io, cpu, memory := filepath.Join(root, "blkio", name), filepath.Join(root, "cpu", name), filepath.Join(root, "memory", name)
	g = &cgroup{
		directories: []string{io, cpu, memory},
		throttle:    filepath.Join(io, "blkio.throttle.read_bps_device"), rate: "%s %d",
		quota: filepath.Join(cpu, "cpu.cfs_quota_us"), share: "%d",
		most: filepath.Join(memory, "memory.limit_in_bytes"), peak: filepath.Join(memory, "memory.max_usage_in_bytes"),
	}
	if _, err := os.Stat(root + "/cgroup.controllers"); err == nil { // version 2
		dir := filepath.Join(root, name)
		g = &cgroup{
			directories: []string{dir},
			throttle:    filepath.Join(dir, "io.max"), rate: "%s rbps=%d",
			quota: filepath.Join(dir, "cpu.max"), share: fmt.Sprintf("%%d %d", quotaPeriod),
			most: filepath.Join(dir, "memory.max"), peak: filepath.Join(dir, "memory.peak"),
		}
		// The controllers may be enabled already. What matters is whether limits can be set.
		_ = os.WriteFile(root+"/cgroup.subtree_control", []byte("+io +cpu +memory"), 0)
	}
	text := []byte("#!/bin/sh\nset -e\n")
	for _, dir := range g.directories {
		if err := os.Mkdir(dir, 0o755); err != nil {
			check(fmt.Errorf("control groups: %w", err))
		}
		b.later(func() error { return removeGroup(dir) })
		text = fmt.Appendf(text, "echo $$ > '%s/cgroup.procs'\n", dir)
	}
	script = filepath.Join(b.work, name)
	check(os.WriteFile(script, fmt.Appendf(text, "exec '%s' \"$@\"\n", program), 0o755))
	return g, script
}

// limitReads limits reads from a path's file system, in bytes per second.
func (g *cgroup) limitReads(path string, bytes int64) error {
	disk, err := diskOf(path)
	if err != nil {
		return err
	}
	return os.WriteFile(g.throttle, fmt.Appendf(nil, g.rate, disk, bytes), 0)
}

// limitCPU limits processor time, in processors.
func (g *cgroup) limitCPU(cpus float64) error {
	return os.WriteFile(g.quota, fmt.Appendf(nil, g.share, int(cpus*quotaPeriod)), 0)
}

func (g *cgroup) limitMemory(bytes int64) error {
	return os.WriteFile(g.most, fmt.Append(nil, bytes), 0)
}

// peakMemory is the most memory that the group has had, in bytes.
func (g *cgroup) peakMemory() int64 { return must(number(g.peak, "")) }

// removeGroup removes a directory of a group after its processes have ended, which helpers of a
// daemon may do a moment after the daemon.
func removeGroup(dir string) error {
	err := os.Remove(dir)
	for began := time.Now(); errors.Is(err, unix.EBUSY) && time.Since(began) < time.Second; err = os.Remove(dir) {
		time.Sleep(time.Millisecond)
	}
	return err
}

// diskOf returns the number, MAJOR:MINOR, of the disk that holds a path. Limits apply to
// whole disks, not to partitions.
func diskOf(path string) (string, error) {
	var st unix.Stat_t
	if err := unix.Stat(path, &st); err != nil {
		return "", err
	}
	number := fmt.Sprintf("%d:%d", unix.Major(st.Dev), unix.Minor(st.Dev))
	device, err := filepath.EvalSymlinks(filepath.Join("/sys/dev/block", number))
	if err != nil {
		return "", fmt.Errorf("%s is on no disk whose reads can be limited", path)
	}
	if _, err := os.Stat(filepath.Join(device, "partition")); err == nil {
		number = line(filepath.Join(filepath.Dir(device), "dev"), "")
	}
	return number, nil
}
