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
	io, cpu, memory       string // directories, the same one in version 2
	throttle, quota, most string // files in them
	peak                  string // the file with the most memory that there was
	rate, share           string // formats of a line in throttle and in quota
}

// quotaPeriod is the kernel's default, in microseconds.
const quotaPeriod = 100000

// newCgroup makes a control group, if this machine allows it.
func newCgroup(name string) (*cgroup, error) {
	const root = "/sys/fs/cgroup"
	g := &cgroup{
		io: filepath.Join(root, "blkio", name), throttle: "blkio.throttle.read_bps_device", rate: "%s %d",
		cpu: filepath.Join(root, "cpu", name), quota: "cpu.cfs_quota_us", share: "%d",
		memory: filepath.Join(root, "memory", name), most: "memory.limit_in_bytes", peak: "memory.max_usage_in_bytes",
	}
	if _, err := os.Stat(root + "/cgroup.controllers"); err == nil { // version 2
		dir := filepath.Join(root, name)
		g = &cgroup{
			io: dir, throttle: "io.max", rate: "%s rbps=%d",
			cpu: dir, quota: "cpu.max", share: fmt.Sprintf("%%d %d", quotaPeriod),
			memory: dir, most: "memory.max", peak: "memory.peak",
		}
		// The controllers may be enabled already. What matters is whether limits can be set.
		_ = os.WriteFile(root+"/cgroup.subtree_control", []byte("+io +cpu +memory"), 0)
	}
	var err error
	for _, dir := range g.directories() {
		err = errors.Join(err, os.Mkdir(dir, 0o755))
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("control groups: %w", err), g.remove())
	}
	return g, nil
}

func (g *cgroup) directories() []string {
	if g.io == g.cpu {
		return []string{g.io}
	}
	return []string{g.io, g.cpu, g.memory}
}

// inGroup makes a new control group, and a script that runs a program in it, for one contest.
func inGroup(b *bench, program string) (g *cgroup, script string, err error) {
	g, err = newCgroup(fmt.Sprintf("batchfs-bench-%d-%d", os.Getpid(), len(b.ends)))
	if err != nil {
		return nil, "", err
	}
	b.later(g.remove)
	script = filepath.Join(b.work, filepath.Base(g.io))
	return g, script, g.wrap(program, script)
}

// wrap writes a script that runs a program inside the group.
func (g *cgroup) wrap(program, script string) error {
	text := []byte("#!/bin/sh\nset -e\n")
	for _, dir := range g.directories() {
		text = fmt.Appendf(text, "echo $$ > '%s/cgroup.procs'\n", dir)
	}
	return os.WriteFile(script, fmt.Appendf(text, "exec '%s' \"$@\"\n", program), 0o755)
}

// limitReads limits reads from a path's file system, in bytes per second.
func (g *cgroup) limitReads(path string, bytes int64) error {
	disk, err := diskOf(path)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(g.io, g.throttle), fmt.Appendf(nil, g.rate, disk, bytes), 0)
}

// limitCPU limits processor time, in processors.
func (g *cgroup) limitCPU(cpus float64) error {
	return os.WriteFile(filepath.Join(g.cpu, g.quota), fmt.Appendf(nil, g.share, int(cpus*quotaPeriod)), 0)
}

// peakMemory is the most memory that the group has had, in bytes.
func (g *cgroup) peakMemory() (bytes int64, err error) {
	text, err := os.ReadFile(filepath.Join(g.memory, g.peak))
	if err == nil {
		_, err = fmt.Sscan(string(text), &bytes)
	}
	return bytes, err
}

func (g *cgroup) limitMemory(bytes int64) error {
	return os.WriteFile(filepath.Join(g.memory, g.most), fmt.Append(nil, bytes), 0)
}

// remove removes the group after its processes have ended: helpers of a daemon may do so a moment
// after it.
func (g *cgroup) remove() (err error) {
	for _, dir := range g.directories() {
		e := os.Remove(dir)
		for began := time.Now(); errors.Is(e, unix.EBUSY) && time.Since(began) < time.Second; e = os.Remove(dir) {
			time.Sleep(time.Millisecond)
		}
		if !errors.Is(e, os.ErrNotExist) {
			err = errors.Join(err, e)
		}
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
