package machine

import (
	"io/fs"
	"path"
	"slices"
	"strings"
)

// A Share is how much memory a mount without a limit of its own may use.
type Share struct {
	Limit  int64 // bytes
	Bound  Bound // the bound it follows from
	Mounts int   // the number of mounts that share the bound, including this one
}

// Share is the share of a mount that is about to start.
func (h *Memory) Share() Share {
	s := h.share()
	for _, b := range h.bounds() {
		if half := b.Left / 2; half < s.Limit {
			s.Limit, s.Bound = half, b
		}
	}
	s.Limit = max(s.Limit, 1)
	return s
}

// share is the smallest share of all bounds: half of a bound's total, divided by the number of
// mounts within it.
func (h *Memory) share() (least Share) {
	bounds := h.bounds()
	for i, mounts := range h.mounts(bounds) {
		if limit := bounds[i].Total / 2 / int64(mounts); i == 0 || limit < least.Limit {
			least = Share{Limit: limit, Bound: bounds[i], Mounts: mounts}
		}
	}
	return least
}

// mounts counts the mounts within each of the bounds, in order, including this process.
// Processes that are not visible do not count.
func (h *Memory) mounts(bounds []Bound) []int {
	counts := slices.Repeat([]int{1}, len(bounds))
	for _, id := range h.otherMounts() {
		groups := append(h.groups(id), group{}) // the machine
		for i, b := range bounds {
			if slices.ContainsFunc(groups, func(g group) bool { return g.path == b.group }) {
				counts[i]++
			}
		}
	}
	return counts
}

// otherMounts lists the other processes that run this program as a mount: "batchfs mount ..." or
// "mount.batchfs ...". A mount going into the background counts once, together with the process
// that waits for it.
func (h *Memory) otherMounts() (ids []string) {
	self := h.status("self")
	parents := []string{self["PPid"]}
	entries, _ := fs.ReadDir(h.files, "proc")
	for _, e := range entries {
		args := strings.Split(h.text("proc/"+e.Name()+"/cmdline"), "\x00") // a zombie has none
		if len(args) < 2 || args[1] != "mount" && !strings.HasPrefix(path.Base(args[0]), "mount.") {
			continue
		}
		p := h.status(e.Name())
		// Linux 6.18 has been seen to list threads, too.
		if p["Name"] == self["Name"] && p["Pid"] == e.Name() && p["Pid"] == p["Tgid"] && p["Pid"] != self["Pid"] {
			ids, parents = append(ids, p["Pid"]), append(parents, p["PPid"])
		}
	}
	return slices.DeleteFunc(ids, func(id string) bool { return slices.Contains(parents, id) })
}

// status is what the kernel says about a process, by name; empty if it has ended. Tgid is the
// process that a thread belongs to.
func (h *Memory) status(process string) map[string]string {
	fields := map[string]string{}
	for line := range strings.Lines(h.text("proc/" + process + "/status")) {
		name, value, _ := strings.Cut(line, ":")
		fields[name] = strings.TrimSpace(value)
	}
	return fields
}
