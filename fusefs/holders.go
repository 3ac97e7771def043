package fusefs

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/moby/sys/mountinfo"
	"golang.org/x/sys/unix"
)

// A Holder keeps a file system alive that was unmounted elsewhere.
type Holder struct {
	PID     int    // lowest PID in the mount namespace; 0: this namespace
	Command string // that process's name
	Path    string // where it sees the mount
}

func (h Holder) String() string {
	if h.PID == 0 {
		return "also mounted at " + h.Path
	}
	return fmt.Sprintf("process %d (%s) in another mount namespace", h.PID, h.Command)
}

// A HeldError means that a mount is gone from here, but others still have it.
type HeldError struct{ Holders []Holder }

func (e *HeldError) Error() string {
	words := make([]string, len(e.Holders))
	for i, h := range e.Holders {
		words[i] = h.String()
	}
	return "still held: " + strings.Join(words, ", ")
}

// holders finds the mounts of a file system in all mount namespaces that this process can
// see: one entry per namespace.
func holders(device string) (found []Holder) {
	own, _ := os.Readlink("/proc/self/ns/mnt")
	entries, _ := os.ReadDir("/proc")
	var pids []int
	for _, e := range entries {
		if pid, err := strconv.Atoi(e.Name()); err == nil {
			pids = append(pids, pid)
		}
	}
	slices.Sort(pids)
	seen := map[string]bool{}
	for _, pid := range pids {
		dir := fmt.Sprintf("/proc/%d", pid)
		space, err := os.Readlink(dir + "/ns/mnt")
		if err != nil || seen[space] { // it has ended, or belongs to another user
			continue
		}
		path, err := mountOf(device, dir+"/mountinfo")
		if err != nil {
			continue
		}
		seen[space] = true
		switch {
		case path == "":
		case space == own:
			found = append(found, Holder{Path: path})
		default:
			name, _ := os.ReadFile(dir + "/comm")
			found = append(found, Holder{pid, strings.TrimSpace(string(name)), path})
		}
	}
	return found
}

// mountOf is where a mount table has a batchfs with a device; "" if nowhere.
func mountOf(device, table string) (path string, err error) {
	f, err := os.Open(table)
	if err != nil {
		return "", err
	}
	defer f.Close()
	_, err = mountinfo.GetMountsFromReader(f, func(e *mountinfo.Info) (skip, stop bool) {
		if identityOf(e).device == device && e.FSType == fsType {
			path = cmp.Or(path, e.Mountpoint)
		}
		return true, false
	})
	return path, err
}

// watch has m.gone closed when this process no longer sees the mount. The kernel reports
// changes of the mount table, of which the mount's end is one.
func (m *Session) watch(log *slog.Logger) {
	// Not os.Open: Go's poller would watch the file too, and each change is reported to
	// only one of the two.
	table, err := unix.Open("/proc/self/mountinfo", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		log.Warn("it will not be noticed when the mount is unmounted while others hold it", "error", err)
		go func() { <-m.done; close(m.gone) }()
		return
	}
	go func() {
		defer close(m.gone)
		defer unix.Close(table)
		for {
			if entry, _, err := m.mount.find(); err == nil && entry == nil || !m.alive() {
				return
			}
			_, err := unix.Poll([]unix.PollFd{{Fd: int32(table), Events: unix.POLLPRI}}, -1)
			if err != nil && !errors.Is(err, unix.EINTR) {
				<-m.done
				return
			}
		}
	}()
}
