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
	memory, io string // directories; the same one in version 2
	unified    bool
}

const cgroupRoot = "/sys/fs/cgroup"

// newCgroup makes a control group, if this machine allows it.
func newCgroup(name string) (*cgroup, error) {
	var fs unix.Statfs_t
	if err := unix.Statfs(cgroupRoot, &fs); err != nil {
		return nil, fmt.Errorf("control groups: %w", err)
	}
	g := &cgroup{unified: fs.Type == unix.CGROUP2_SUPER_MAGIC}
	if g.unified {
		g.memory = filepath.Join(cgroupRoot, name)
		// The controllers may be enabled already. What matters is whether the files below
		// exist.
		_ = os.WriteFile(filepath.Join(cgroupRoot, "cgroup.subtree_control"), []byte("+memory +io"), 0)
		g.io = g.memory
	} else {
		g.memory, g.io = filepath.Join(cgroupRoot, "memory", name), filepath.Join(cgroupRoot, "blkio", name)
	}
	for _, dir := range g.directories() {
		if err := os.Mkdir(dir, 0o755); err != nil {
			return nil, errors.Join(fmt.Errorf("control groups: %w", err), g.remove())
		}
	}
	for _, file := range []string{g.memoryLimit(), g.readLimit()} {
		if _, err := os.Stat(file); err != nil {
			return nil, errors.Join(fmt.Errorf("control groups: %w", err), g.remove())
		}
	}
	return g, nil
}

func (g *cgroup) directories() []string {
	if g.unified {
		return []string{g.memory}
	}
	return []string{g.memory, g.io}
}

// command returns the command line that starts a program inside the group.
func (g *cgroup) command(program []string) []string {
	if g == nil {
		return program
	}
	script := ""
	for _, dir := range g.directories() {
		script += "echo $$ > " + filepath.Join(dir, "cgroup.procs") + " && "
	}
	return append([]string{"/bin/sh", "-c", script + `exec "$0" "$@"`}, program...)
}

func (g *cgroup) memoryLimit() string {
	if g.unified {
		return filepath.Join(g.memory, "memory.max")
	}
	return filepath.Join(g.memory, "memory.limit_in_bytes")
}

func (g *cgroup) readLimit() string {
	if g.unified {
		return filepath.Join(g.io, "io.max")
	}
	return filepath.Join(g.io, "blkio.throttle.read_bps_device")
}

// limitReads limits reads from a path's file system, in bytes per second.
func (g *cgroup) limitReads(path string, bytes int64) error {
	disk, err := diskOf(path)
	if err != nil {
		return err
	}
	format := "%s %d"
	if g.unified {
		format = "%s rbps=%d"
	}
	return os.WriteFile(g.readLimit(), fmt.Appendf(nil, format, disk, bytes), 0)
}

// limitFiles leaves the given number of bytes for the page cache, beyond what the group's
// processes use now.
func (g *cgroup) limitFiles(bytes int64) error {
	usage := "memory.usage_in_bytes"
	if g.unified {
		usage = "memory.current"
	}
	used, err := strconv.ParseInt(word(filepath.Join(g.memory, usage)), 10, 64)
	if err != nil {
		return err
	}
	files, err := g.fileBytes()
	if err != nil {
		return err
	}
	return os.WriteFile(g.memoryLimit(), fmt.Append(nil, used-files+bytes), 0)
}

// fileBytes is the part of the group's memory that is page cache of files on storage.
func (g *cgroup) fileBytes() (bytes int64, err error) {
	text, err := os.ReadFile(filepath.Join(g.memory, "memory.stat"))
	for line := range strings.Lines(string(text)) {
		var n int64
		for _, name := range []string{"active_file", "inactive_file"} {
			if _, err := fmt.Sscanf(line, name+" %d\n", &n); err == nil {
				bytes += n
			}
		}
	}
	return bytes, err
}

// remove removes the group after its processes have ended.
func (g *cgroup) remove() (err error) {
	for _, dir := range g.directories() {
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
