package main

import (
	"bufio"
	"bytes"
	"io/fs"
	"math"
	"os"
	"path"
	"runtime"
	"strconv"
	"strings"
)

// machine is the part of the computer that a mount has to share, read from
// the kernel's files. Its root is a file system so that tests can show it
// other machines.
type machine struct {
	files fs.FS
	cpus  int // that this process may use
}

func thisMachine() machine {
	return machine{files: os.DirFS("/"), cpus: runtime.GOMAXPROCS(0)}
}

// memory is the bytes this process may use: what the machine has, or the
// smallest limit of the control groups it runs in.
func (m machine) memory() int64 {
	limit := m.physicalMemory()
	if group, ok := m.groupMemory(); ok && group < limit {
		limit = group
	}
	return limit
}

// defaultMemoryLimit is half of what there is: the training program needs the
// rest.
func (m machine) defaultMemoryLimit() int64 { return m.memory() / 2 }

// physicalMemory is MemTotal, or a safe guess where /proc is not there.
func (m machine) physicalMemory() int64 {
	const guess = 4 << 30
	text, err := fs.ReadFile(m.files, "proc/meminfo")
	if err != nil {
		return guess
	}
	lines := bufio.NewScanner(bytes.NewReader(text))
	for lines.Scan() {
		fields := strings.Fields(lines.Text())
		if len(fields) == 3 && fields[0] == "MemTotal:" && fields[2] == "kB" {
			if n, err := strconv.ParseInt(fields[1], 10, 64); err == nil && n > 0 {
				return n << 10
			}
		}
	}
	return guess
}

// groupMemory is the smallest limit of this process's memory control groups
// and their parents, of either version.
func (m machine) groupMemory() (limit int64, found bool) {
	limit = math.MaxInt64
	for _, dir := range m.memoryGroups() {
		for _, name := range []string{"memory.max", "memory.limit_in_bytes"} {
			if n, ok := m.number(path.Join(dir, name)); ok && n < limit {
				limit, found = n, true
			}
		}
	}
	return limit, found
}

// memoryGroups lists the directories of the control groups that hold this
// process, from its own to the root. In a container the paths in
// /proc/self/cgroup may be the host's, which are not there; the root is.
func (m machine) memoryGroups() []string {
	text, err := fs.ReadFile(m.files, "proc/self/cgroup")
	if err != nil {
		return nil
	}
	var dirs []string
	lines := bufio.NewScanner(bytes.NewReader(text))
	for lines.Scan() {
		parts := strings.SplitN(lines.Text(), ":", 3)
		if len(parts) != 3 {
			continue
		}
		var root string
		switch {
		case parts[0] == "0" && parts[1] == "":
			root = "sys/fs/cgroup"
		case strings.Contains(","+parts[1]+",", ",memory,"):
			root = "sys/fs/cgroup/memory"
		default:
			continue
		}
		for p := path.Clean("/" + parts[2]); ; p = path.Dir(p) {
			dirs = append(dirs, path.Join(root, p))
			if p == "/" {
				break
			}
		}
	}
	return dirs
}

// number reads a kernel file that holds one number; "max" and what is not
// there are none.
func (m machine) number(name string) (int64, bool) {
	text, err := fs.ReadFile(m.files, name)
	if err != nil {
		return 0, false
	}
	n, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
	return n, err == nil && n > 0
}

// line reads a kernel file that holds one line, "" where it is not there.
func (m machine) line(name string) string {
	text, err := fs.ReadFile(m.files, name)
	if err != nil {
		return ""
	}
	first, _, _ := strings.Cut(string(text), "\n")
	return strings.TrimSpace(first)
}

func (m machine) exists(name string) bool {
	_, err := fs.Stat(m.files, name)
	return err == nil
}
