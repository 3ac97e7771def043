package machine

import (
	"cmp"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"
)

// A Bound is a limit on the memory of this process.
type Bound struct {
	Name  string // as in messages: "the machine", "the control group /a/b"
	Total int64  // bytes
	Left  int64  // bytes that can be allocated now; never negative

	group string // the control group's path; "" for the machine
}

// reserve is what a mount leaves free for others.
func (b Bound) reserve() int64 { return min(b.Total/16, 256<<20) }

// A Memory describes the memory of this system, as the kernel's files tell.
type Memory struct {
	files fs.FS
}

// NewMemory returns the memory described by the files below root: proc and sys/fs/cgroup.
func NewMemory(root fs.FS) *Memory { return &Memory{files: root} }

// guess is the memory assumed for a machine that does not report it.
const guess = 4 << 30

// Machine is the machine's own bound.
func (h *Memory) Machine() Bound {
	b := Bound{Name: "the machine", Total: cmp.Or(h.value("proc/meminfo", "MemTotal:", 0)<<10, guess)}
	b.Left = min(h.value("proc/meminfo", "MemAvailable:", b.Total>>10)<<10, b.Total)
	return b
}

// bounds are the bounds of this process that are lower than the machine's, from the innermost
// control group outwards, followed by the machine's.
func (h *Memory) bounds() (all []Bound) {
	machine := h.Machine()
	for _, g := range h.groups("self") {
		if b := h.bound(g); b.Total > 0 && b.Total < machine.Total {
			all = append(all, b)
		}
	}
	return append(all, machine)
}

// Lowest is the bound with the lowest total.
func (h *Memory) Lowest() Bound {
	return slices.MinFunc(h.bounds(), func(a, b Bound) int { return cmp.Compare(a.Total, b.Total) })
}

// A group is a memory control group: its directory among the kernel's files, and its path as in
// /proc/PID/cgroup.
type group struct{ dir, path string }

// groups lists the memory control groups of a process, from its own up to the root. In a
// container the paths may be the host's and not exist here; the root does.
func (h *Memory) groups(process string) (all []group) {
	for line := range strings.Lines(h.text("proc/" + process + "/cgroup")) {
		parts, root := strings.SplitN(strings.TrimSuffix(line, "\n"), ":", 3), "sys/fs/cgroup"
		if len(parts) == 3 && slices.Contains(strings.Split(parts[1], ","), "memory") {
			root += "/memory" // cgroups version 1
		} else if len(parts) != 3 || parts[0] != "0" || parts[1] != "" {
			continue
		}
		for p := path.Clean("/" + parts[2]); ; p = path.Dir(p) {
			all = append(all, group{path.Join(root, p), p})
			if p == "/" {
				break
			}
		}
	}
	return all
}

// bound reads the limit of one control group and what is left of it; its total is 0 if it has no
// limit. Every file and name belongs to only one version of control groups.
func (h *Memory) bound(g group) Bound {
	b := Bound{Name: "the control group " + g.path, group: g.path}
	for _, name := range []string{"memory.max", "memory.high", "memory.limit_in_bytes"} {
		if n := h.value(g.dir+"/"+name, "", 0); n > 0 && (b.Total == 0 || n < b.Total) {
			b.Total = n
		}
	}
	used := max(h.value(g.dir+"/memory.current", "", 0), h.value(g.dir+"/memory.usage_in_bytes", "", 0))
	for _, name := range []string{"inactive_file", "active_file"} {
		// In version 1 this name leaves out the subgroups.
		used -= max(h.value(g.dir+"/memory.stat", name, 0), h.value(g.dir+"/memory.stat", "total_"+name, 0))
	}
	b.Left = max(b.Total-max(used, 0), 0)
	return b
}

// value reads the number after a name in a kernel file. The file's lines are a name, a number and
// an optional unit; without a name, the number is the whole file. It returns unknown if there is no
// number, as for "max".
func (h *Memory) value(file, name string, unknown int64) int64 {
	for line := range strings.Lines(h.text(file)) {
		fields := strings.Fields(line)
		if name == "" {
			fields = append([]string{""}, fields...)
		}
		if len(fields) > 1 && fields[0] == name {
			if n, err := strconv.ParseInt(fields[1], 10, 64); err == nil && n >= 0 {
				return n
			}
		}
	}
	return unknown
}

// text is the content of a file, "" if it cannot be read.
func (h *Memory) text(name string) string {
	b, _ := fs.ReadFile(h.files, name)
	return string(b)
}
