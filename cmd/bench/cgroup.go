package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// A cgroup limits a process's memory, including the page cache it fills, and its read rate
// from a device. The nil *cgroup limits nothing.
type cgroup struct {
	dirs                   []string // one per controller; a single one in version 2
	limit, usage, stat, io string   // files
	rate                   string   // format of a line in io
}

// newCgroup makes a control group, if this machine allows it.
func newCgroup(name string) (*cgroup, error) {
	const root = "/sys/fs/cgroup"
	var fs unix.Statfs_t
	if err := unix.Statfs(root, &fs); err != nil {
		return nil, fmt.Errorf("control groups: %w", err)
	}
	var g *cgroup
	if fs.Type == unix.CGROUP2_SUPER_MAGIC {
		// The controllers may be enabled already. What matters is whether the files below exist.
		_ = os.WriteFile(root+"/cgroup.subtree_control", []byte("+memory +io"), 0)
		dir := filepath.Join(root, name)
		g = &cgroup{[]string{dir}, dir + "/memory.max", dir + "/memory.current", dir + "/memory.stat", dir + "/io.max", "%s rbps=%d"}
	} else {
		memory, io := filepath.Join(root, "memory", name), filepath.Join(root, "blkio", name)
		g = &cgroup{[]string{memory, io}, memory + "/memory.limit_in_bytes", memory + "/memory.usage_in_bytes", memory + "/memory.stat",
			io + "/blkio.throttle.read_bps_device", "%s %d"}
	}
	var err error
	for _, dir := range g.dirs {
		err = errors.Join(err, os.Mkdir(dir, 0o755))
	}
	for _, file := range []string{g.limit, g.io} {
		_, missing := os.Stat(file)
		err = errors.Join(err, missing)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("control groups: %w", err), g.remove())
	}
	return g, nil
}

// command returns the command line that starts a program inside the group.
func (g *cgroup) command(program []string) []string {
	if g == nil {
		return program
	}
	script := ""
	for _, dir := range g.dirs {
		script += "echo $$ > " + filepath.Join(dir, "cgroup.procs") + " && "
	}
	return append([]string{"/bin/sh", "-c", script + `exec "$0" "$@"`}, program...)
}

// limitReads limits reads from a path's file system, in bytes per second.
func (g *cgroup) limitReads(path string, bytes int64) error {
	disk, err := diskOf(path)
	if err != nil {
		return err
	}
	return os.WriteFile(g.io, fmt.Appendf(nil, g.rate, disk, bytes), 0)
}

// limitFiles leaves the given number of bytes for the page cache, beyond what the group's
// processes use now.
func (g *cgroup) limitFiles(bytes int64) error {
	used, err := strconv.ParseInt(word(g.usage), 10, 64)
	if err != nil {
		return err
	}
	stat, err := os.ReadFile(g.stat)
	if err != nil {
		return err
	}
	for line := range strings.Lines(string(stat)) {
		var n int64 // page cache of files on storage
		for _, name := range []string{"active_file", "inactive_file"} {
			if _, err := fmt.Sscanf(line, name+" %d\n", &n); err == nil {
				used -= n
			}
		}
	}
	return os.WriteFile(g.limit, fmt.Append(nil, used+bytes), 0)
}

// remove removes the group after its processes have ended.
func (g *cgroup) remove() (err error) {
	for _, dir := range g.dirs {
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
		number = word(filepath.Join(filepath.Dir(device), "dev"))
	}
	return number, nil
}
