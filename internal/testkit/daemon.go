package testkit

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// RaceDetector reports whether this test, and the daemons that it builds, run with the race
// detector.
func RaceDetector() bool { return BuildSetting("-race") == "true" }

// BatchMemory reports that a link in /proc/PID/fd refers to memory of a daemon's batches.
func BatchMemory(target string) bool {
	return strings.HasPrefix(target, "/#") && strings.HasSuffix(target, " (deleted)") // O_TMPFILE
}

// OpenFiles lists the descriptors of a daemon, sorted, except those of batch memory, which is
// pooled, of Go's poller, which opens them on first use, and those that begin with one of but.
func OpenFiles(pid int, but ...string) (open []string, err error) {
	dir := fmt.Sprintf("/proc/%d/fd", pid)
	entries, err := os.ReadDir(dir)
	for _, e := range entries {
		target, err := os.Readlink(filepath.Join(dir, e.Name()))
		if err != nil || BatchMemory(target) || target == "anon_inode:[eventpoll]" || target == "anon_inode:[eventfd]" ||
			slices.ContainsFunc(but, func(prefix string) bool { return strings.HasPrefix(target, prefix) }) {
			continue
		}
		kind, _, _ := strings.Cut(target, ":[") // without the number of a pipe or socket
		// Another mount may have replaced a file, which makes it no other descriptor.
		open = append(open, strings.TrimSuffix(kind, " (deleted)"))
	}
	slices.Sort(open)
	return open, err
}

// Status is the sum of some lines of /proc/PID/status, in bytes; 0 of a process that has ended.
func Status(pid int, names ...string) (sum int64) {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	for line := range strings.Lines(string(text)) {
		if name, rest, _ := strings.Cut(line, ":"); slices.Contains(names, name) {
			kib, _ := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(rest), " kB"), 10, 64)
			sum += kib << 10
		}
	}
	return sum
}

// Complaint is an error if a daemon's log has what no log may contain.
func Complaint(log string) error {
	for _, word := range []string{"DATA RACE", "panic", "fatal error", "SIGSEGV", "SIGBUS"} {
		if strings.Contains(log, word) {
			return fmt.Errorf("the daemon's log speaks of a %s", word)
		}
	}
	return nil
}
