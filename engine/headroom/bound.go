package headroom

import (
	"bufio"
	"bytes"
	"io/fs"
	"os"
	"path"
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

// A Host is the system that this process runs on, as the kernel's files describe it.
type Host struct {
	files fs.FS
}

// This is the host of this process.
func This() *Host { return New(os.DirFS("/")) }

// New returns a host described by the files below root: proc and sys/fs/cgroup.
func New(root fs.FS) *Host { return &Host{files: root} }

// guess is the memory assumed for a machine that does not report it.
const guess = 4 << 30

// Machine is the machine's own bound.
func (h *Host) Machine() Bound {
	info := h.table("proc/meminfo", ":")
	b := Bound{Name: "the machine", Total: info["MemTotal"] << 10}
	if b.Total <= 0 {
		b.Total = guess
	}
	available, known := info["MemAvailable"]
	if !known {
		available = b.Total >> 10
	}
	b.Left = min(max(available<<10, 0), b.Total)
	return b
}

// Bounds are the bounds of this process that are lower than the machine's, from the
// innermost control group outwards, followed by the machine's.
func (h *Host) Bounds() []Bound {
	machine := h.Machine()
	var all []Bound
	for _, g := range h.groups("self") {
		if b, ok := h.bound(g); ok && b.Total < machine.Total {
			all = append(all, b)
		}
	}
	return append(all, machine)
}

// Lowest is the bound with the lowest total.
func (h *Host) Lowest() Bound {
	var lowest Bound
	for _, b := range h.Bounds() {
		if lowest.Total == 0 || b.Total < lowest.Total {
			lowest = b
		}
	}
	return lowest
}

// A group is a memory control group: its directory among the host's files, and its path as
// in /proc/PID/cgroup.
type group struct{ dir, path string }

// groups lists the memory control groups of a process, from its own up to the root. In a
// container the paths may be the host's and not exist here; the root does.
func (h *Host) groups(process string) []group {
	text, err := fs.ReadFile(h.files, "proc/"+process+"/cgroup")
	if err != nil {
		return nil
	}
	var all []group
	for line := range strings.Lines(string(text)) {
		parts := strings.SplitN(strings.TrimSuffix(line, "\n"), ":", 3)
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
			all = append(all, group{path.Join(root, p), p})
			if p == "/" {
				break
			}
		}
	}
	return all
}

// bound reads the limit of one control group and what is left of it.
func (h *Host) bound(g group) (Bound, bool) {
	b := Bound{Name: "the control group " + g.path, group: g.path}
	for _, name := range []string{"memory.max", "memory.high", "memory.limit_in_bytes"} {
		if n, ok := h.number(path.Join(g.dir, name)); ok && n > 0 && (b.Total == 0 || n < b.Total) {
			b.Total = n
		}
	}
	if b.Total == 0 {
		return b, false
	}
	used, known := h.number(path.Join(g.dir, "memory.current"))
	files := []string{"inactive_file", "active_file"}
	if !known { // version 1 has the totals including subgroups under other names
		used, _ = h.number(path.Join(g.dir, "memory.usage_in_bytes"))
		files = []string{"total_inactive_file", "total_active_file"}
	}
	stat := h.table(path.Join(g.dir, "memory.stat"), "")
	for _, name := range files {
		used -= max(stat[name], 0)
	}
	b.Left = min(max(b.Total-max(used, 0), 0), b.Total)
	return b, true
}

// number reads a kernel file that holds one number. It returns false for "max" and for
// missing files.
func (h *Host) number(name string) (int64, bool) {
	text, err := fs.ReadFile(h.files, name)
	if err != nil {
		return 0, false
	}
	n, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
	return n, err == nil
}

// table reads a kernel file whose lines are a name, a number and an optional unit.
func (h *Host) table(name, suffix string) map[string]int64 {
	values := map[string]int64{}
	text, err := fs.ReadFile(h.files, name)
	if err != nil {
		return values
	}
	lines := bufio.NewScanner(bytes.NewReader(text))
	for lines.Scan() {
		fields := strings.Fields(lines.Text())
		if len(fields) < 2 {
			continue
		}
		if n, err := strconv.ParseInt(fields[1], 10, 64); err == nil {
			values[strings.TrimSuffix(fields[0], suffix)] = n
		}
	}
	return values
}
