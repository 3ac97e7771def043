package headroom

import (
	"io/fs"
	"path"
	"strconv"
	"strings"
)

// A process is a process as the kernel describes it.
type process struct {
	name   string
	parent int
}

// Mounts counts the mounts within each of the bounds, in order. This process always counts
// as one. Processes that are not visible do not count.
func (h *Host) Mounts(bounds []Bound) []int {
	counts := make([]int, len(bounds))
	for i := range counts {
		counts[i] = 1
	}
	for _, pid := range h.otherMounts() {
		groups := h.groups(strconv.Itoa(pid))
		for i, b := range bounds {
			if b.group == "" || within(groups, b.group) {
				counts[i]++
			}
		}
	}
	return counts
}

func within(groups []group, path string) bool {
	for _, g := range groups {
		if g.path == path {
			return true
		}
	}
	return false
}

// otherMounts lists the other processes that run this program as a mount. A mount going
// into the background counts once, together with the process that waits for it.
func (h *Host) otherMounts() []int {
	self, pid, ok := h.process("self")
	entries, err := fs.ReadDir(h.files, "proc")
	if !ok || err != nil {
		return nil
	}
	var mounts []int
	parents := map[int]bool{pid: true, self.parent: true}
	for _, e := range entries {
		if _, err := strconv.Atoi(e.Name()); err != nil {
			continue
		}
		p, id, ok := h.process(e.Name())
		if !ok || p.name != self.name || id == pid || !h.runsMount(e.Name()) {
			continue
		}
		mounts = append(mounts, id)
		parents[p.parent] = true
	}
	children := mounts[:0]
	for _, id := range mounts {
		if !parents[id] {
			children = append(children, id)
		}
	}
	return children
}

// process reads /proc/PID/stat: "17 (name) S 1 ...". It returns false if the process has
// ended.
func (h *Host) process(name string) (p process, pid int, ok bool) {
	text, err := fs.ReadFile(h.files, "proc/"+name+"/stat")
	if err != nil {
		return p, 0, false
	}
	number, rest, found := strings.Cut(string(text), " (")
	end := strings.LastIndex(rest, ") ") // the name may contain anything
	if !found || end < 0 {
		return p, 0, false
	}
	fields := strings.Fields(rest[end+2:])
	if pid, err = strconv.Atoi(number); err != nil || len(fields) < 2 || fields[0] == "Z" || fields[0] == "X" {
		return p, 0, false
	}
	p.name = rest[:end]
	p.parent, err = strconv.Atoi(fields[1])
	return p, pid, err == nil
}

// runsMount reports whether a command line is "batchfs mount ..." or "mount.batchfs ...".
func (h *Host) runsMount(name string) bool {
	text, err := fs.ReadFile(h.files, "proc/"+name+"/cmdline")
	if err != nil {
		return false
	}
	args := strings.Split(string(text), "\x00")
	return len(args) > 1 && args[1] == "mount" || strings.HasPrefix(path.Base(args[0]), "mount.")
}
