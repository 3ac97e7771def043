package fusefs

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

const (
	mountName = "batchfs"
	fsType    = "fuse." + mountName
)

// A mountEntry is one line of /proc/self/mountinfo.
type mountEntry struct {
	id, parent int
	device     string // major:minor
	path       string
	fsType     string
}

// mounts lists the mounts in this process's view of the file system.
func mounts() ([]mountEntry, error) { return mountsOf("/proc/self/mountinfo") }

func mountsOf(table string) ([]mountEntry, error) {
	f, err := os.Open(table)
	if err != nil {
		return nil, fmt.Errorf("read what is mounted: %w", err)
	}
	defer f.Close()
	return parseMounts(f)
}

func parseMounts(r io.Reader) ([]mountEntry, error) {
	var entries []mountEntry
	lines := bufio.NewReader(r)
	for {
		line, err := lines.ReadString('\n')
		if e, ok := parseMount(line); ok {
			entries = append(entries, e)
		}
		if err == io.EOF {
			return entries, nil
		}
		if err != nil {
			return nil, fmt.Errorf("read what is mounted: %w", err)
		}
	}
}

// parseMount parses one line: id parent major:minor root path options, any number of
// optional fields, a dash, and type source options.
func parseMount(line string) (mountEntry, bool) {
	before, after, ok := strings.Cut(strings.TrimSuffix(line, "\n"), " - ")
	fields, rest := strings.Split(before, " "), strings.Split(after, " ")
	if !ok || len(fields) < 6 || len(rest) < 1 {
		return mountEntry{}, false
	}
	id, err := strconv.Atoi(fields[0])
	if err != nil {
		return mountEntry{}, false
	}
	parent, err := strconv.Atoi(fields[1])
	if err != nil {
		return mountEntry{}, false
	}
	return mountEntry{id: id, parent: parent, device: fields[2], path: unescape(fields[4]), fsType: unescape(rest[0])}, true
}

// unescape undoes the kernel's escapes: a backslash and three octal digits for a space, a
// tab, a newline, a hash or a backslash.
func unescape(s string) string {
	if !strings.Contains(s, `\`) {
		return s
	}
	var out strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+3 < len(s) {
			if c, err := strconv.ParseUint(s[i+1:i+4], 8, 8); err == nil {
				out.WriteByte(byte(c))
				i += 3
				continue
			}
		}
		out.WriteByte(s[i])
	}
	return out.String()
}

// topMount finds the visible mount at a path: of the mounts stacked there, the one not
// covered by another.
func topMount(entries []mountEntry, path string) (mountEntry, bool) {
	covered := map[int]bool{}
	for _, e := range entries {
		if e.path == path && e.parent != e.id {
			covered[e.parent] = true
		}
	}
	for _, e := range entries {
		if e.path == path && !covered[e.id] {
			return e, true
		}
	}
	return mountEntry{}, false
}

// mountAt finds the mount at a path returned by realPath.
func mountAt(path string) (mountEntry, bool, error) {
	entries, err := mounts()
	if err != nil {
		return mountEntry{}, false, err
	}
	e, ok := topMount(entries, path)
	return e, ok, nil
}

// maxLinks is the maximum length of a chain of links to a mountpoint, as in the kernel.
const maxLinks = 40

// realPath makes a mountpoint absolute and free of links, as the kernel lists it. It does
// not access the file system mounted there, which may be dead or hang.
func realPath(mountpoint string) (string, error) {
	if mountpoint == "" {
		return "", fmt.Errorf("the mountpoint is empty")
	}
	for range maxLinks {
		abs, err := filepath.Abs(mountpoint)
		if err != nil {
			return "", err
		}
		dir, err := filepath.EvalSymlinks(filepath.Dir(abs))
		if err != nil {
			return "", err
		}
		path := filepath.Join(dir, filepath.Base(abs))
		target, err := os.Readlink(path)
		if err != nil { // not a link, or missing: left to the caller
			return path, nil
		}
		if mountpoint = target; !filepath.IsAbs(target) {
			mountpoint = filepath.Join(dir, target)
		}
	}
	return "", fmt.Errorf("%s: too many links", mountpoint)
}
