package headroom

import (
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"
)

// A Share is how much memory a mount without a limit of its own may use.
type Share struct {
	Limit  int64 // bytes
	Bound  Bound // the bound it follows from
	Mounts int   // the number of mounts that share the bound, including this one
}

// Share is the share of a mount that is about to start.
func (h *Host) Share() Share {
	s := h.share()
	for _, b := range h.Bounds() {
		if half := b.Left / 2; half < s.Limit {
			s.Limit, s.Bound = half, b
		}
	}
	s.Limit = max(s.Limit, 1)
	return s
}

// share is half of each bound's total, divided by the number of mounts within it; the least
// counts.
func (h *Host) share() (least Share) {
	bounds := h.Bounds()
	for i, mounts := range h.mounts(bounds) {
		if limit := bounds[i].Total / 2 / int64(mounts); i == 0 || limit < least.Limit {
			least = Share{Limit: limit, Bound: bounds[i], Mounts: mounts}
		}
	}
	return least
}

// mounts counts the mounts within each of the bounds, in order. This process always counts as
// one. Processes that are not visible do not count.
func (h *Host) mounts(bounds []Bound) []int {
	counts := slices.Repeat([]int{1}, len(bounds))
	for _, p := range h.otherMounts() {
		groups := h.groups(strconv.Itoa(p.id))
		for i, b := range bounds {
			if b.group == "" || slices.ContainsFunc(groups, func(g group) bool { return g.path == b.group }) {
				counts[i]++
			}
		}
	}
	return counts
}

// otherMounts lists the other processes that run this program as a mount: "batchfs mount ..." or
// "mount.batchfs ...". A mount going into the background counts once, together with the process
// that waits for it.
func (h *Host) otherMounts() []process {
	self := h.process("self")
	entries, _ := fs.ReadDir(h.files, "proc")
	var mounts []process
	parents := map[int]bool{self.id: true, self.parent: true}
	for _, e := range entries {
		p := h.process(e.Name())
		args := strings.Split(h.text("proc/"+e.Name()+"/cmdline"), "\x00")
		isMount := len(args) > 1 && args[1] == "mount" || strings.HasPrefix(path.Base(args[0]), "mount.")
		if p.id != 0 && p.id != self.id && p.name == self.name && isMount && !h.isThread(e.Name()) {
			mounts = append(mounts, p)
			parents[p.parent] = true
		}
	}
	return slices.DeleteFunc(mounts, func(p process) bool { return parents[p.id] })
}

// isThread says whether an entry of proc is not the first thread of its process. Linux 6.18
// has been seen to list others.
func (h *Host) isThread(name string) bool {
	_, group, found := strings.Cut(h.text("proc/"+name+"/status"), "\nTgid:\t")
	return found && !strings.HasPrefix(group, name+"\n")
}

// A process is a process as the kernel describes it.
type process struct {
	id     int
	name   string
	parent int
}

// process reads /proc/PID/stat: "17 (name) S 1 ...". It returns the zero value if the process
// has ended, or name names none.
func (h *Host) process(name string) process {
	number, rest, _ := strings.Cut(h.text("proc/"+name+"/stat"), " (")
	end := strings.LastIndex(rest, ") ") // the name may contain anything
	id, err := strconv.Atoi(number)
	if err != nil || end < 0 {
		return process{}
	}
	fields := strings.Fields(rest[end+2:])
	if len(fields) < 2 || fields[0] == "Z" || fields[0] == "X" {
		return process{}
	}
	parent, err := strconv.Atoi(fields[1])
	if err != nil {
		return process{}
	}
	return process{id, rest[:end], parent}
}
