package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// A cgroup limits the memory of the processes in it, including the page cache they fill, and
// their read rate from a device.
type cgroup struct {
	memory, io             string // directories, the same one in version 2
	limit, usage, throttle string // files in them
	rate                   string // format of a line in throttle
}

// newCgroup makes a control group, if this machine allows it.
func newCgroup(name string) (*cgroup, error) {
	const root = "/sys/fs/cgroup"
	g := &cgroup{
		memory: filepath.Join(root, "memory", name), limit: "memory.limit_in_bytes", usage: "memory.usage_in_bytes",
		io: filepath.Join(root, "blkio", name), throttle: "blkio.throttle.read_bps_device", rate: "%s %d",
	}
	if _, err := os.Stat(root + "/cgroup.controllers"); err == nil { // version 2
		dir := filepath.Join(root, name)
		g = &cgroup{memory: dir, limit: "memory.max", usage: "memory.current", io: dir, throttle: "io.max", rate: "%s rbps=%d"}
		// The controllers may be enabled already. What matters is whether limits can be set.
		_ = os.WriteFile(root+"/cgroup.subtree_control", []byte("+memory +io"), 0)
	}
	err := os.Mkdir(g.memory, 0o755)
	if g.io != g.memory {
		err = errors.Join(err, os.Mkdir(g.io, 0o755))
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("control groups: %w", err), g.remove())
	}
	return g, nil
}

// wrap writes a script that runs a program inside the group.
func (g *cgroup) wrap(program, script string) error {
	const text = "#!/bin/sh\necho $$ > '%s/cgroup.procs' && echo $$ > '%s/cgroup.procs' && exec '%s' \"$@\"\n"
	return os.WriteFile(script, fmt.Appendf(nil, text, g.memory, g.io, program), 0o755)
}

// limitReads limits reads from a path's file system, in bytes per second.
func (g *cgroup) limitReads(path string, bytes int64) error {
	disk, err := diskOf(path)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(g.io, g.throttle), fmt.Appendf(nil, g.rate, disk, bytes), 0)
}

// limitFiles leaves the given number of bytes for the page cache, beyond what the group's
// processes use now.
func (g *cgroup) limitFiles(bytes int64) error {
	stat := filepath.Join(g.memory, "memory.stat")
	used, err := number(filepath.Join(g.memory, g.usage), "")
	active, err1 := number(stat, "active_file ") // page cache of files on storage
	inactive, err2 := number(stat, "inactive_file ")
	if err := errors.Join(err, err1, err2); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(g.memory, g.limit), fmt.Append(nil, used-active-inactive+bytes), 0)
}

// remove removes the group after its processes have ended.
func (g *cgroup) remove() (err error) {
	for _, dir := range []string{g.memory, g.io} {
		if e := os.Remove(dir); e != nil && !errors.Is(e, os.ErrNotExist) {
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
