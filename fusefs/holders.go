package fusefs

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

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
	seen := map[string]bool{}
	for _, pid := range processes() {
		dir := filepath.Join("/proc", strconv.Itoa(pid))
		space, err := os.Readlink(dir + "/ns/mnt")
		if err != nil || seen[space] { // it has ended, or belongs to another user
			continue
		}
		entries, err := mountsOf(dir + "/mountinfo")
		if err != nil {
			continue
		}
		seen[space] = true
		i := slices.IndexFunc(entries, func(e mountEntry) bool { return e.device == device && e.fsType == fsType })
		if i < 0 {
			continue
		}
		h := Holder{Path: entries[i].path}
		if space != own {
			name, _ := os.ReadFile(dir + "/comm")
			h.PID, h.Command = pid, strings.TrimSpace(string(name))
		}
		found = append(found, h)
	}
	return found
}

// processes are the PIDs of all processes, in order.
func processes() (pids []int) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil
	}
	for _, e := range entries {
		if pid, err := strconv.Atoi(e.Name()); err == nil {
			pids = append(pids, pid)
		}
	}
	slices.Sort(pids)
	return pids
}

// watch closes m.gone when this process no longer sees the mount. The kernel signals
// changes of the mount table. stop ends the watch, which also closes m.gone.
func (m *Session) watch(log *slog.Logger) (stop func()) {
	until, ended, err := os.Pipe()
	if err != nil {
		log.Warn("it will not be noticed when the mount is unmounted while others hold it", "error", err)
		return func() { close(m.gone) }
	}
	// Not os.Open: Go's poller would watch the file too, and each change is reported to
	// only one of the two.
	table, err := unix.Open("/proc/self/mountinfo", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		log.Warn("it will not be noticed when the mount is unmounted while others hold it", "error", err)
		return func() { close(m.gone); until.Close(); ended.Close() }
	}
	go func() {
		defer close(m.gone)
		defer until.Close()
		defer unix.Close(table)
		events := []unix.PollFd{{Fd: int32(table), Events: unix.POLLPRI}, {Fd: int32(until.Fd()), Events: unix.POLLIN}}
		for {
			_, err := unix.Poll(events, -1)
			if events[1].Revents != 0 || err != nil && !errors.Is(err, unix.EINTR) {
				return
			}
			if _, _, there, err := m.mount.find(); err == nil && !there {
				return
			}
		}
	}()
	return func() { ended.Close() }
}
