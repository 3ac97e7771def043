package fusefs

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/batchfs/batchfs/internal/parallel"
)

// A User is a process that keeps a mount busy.
type User struct {
	PID     int
	Command string   // the process's name
	Files   []string // what it has open or mapped, waits to open, or works in; relative to the mountpoint
}

// Users finds the processes that use the file system at a mountpoint, if this process may look at
// them. It sends no request to that file system. If ctx ends, Users returns its error shortly
// after.
func Users(ctx context.Context, mountpoint string) ([]User, error) {
	return parallel.Promptly(ctx, func() ([]User, error) { return usersOf(mountpoint) }, nil)
}

func usersOf(mountpoint string) (users []User, err error) {
	path, err := realPath(mountpoint)
	if err != nil {
		return nil, err
	}
	for _, pid := range processes() {
		u := User{PID: pid, Command: commandOf(pid)}
		for _, file := range filesOf(pid) {
			if rest, ok := strings.CutPrefix(file, path); ok && (rest == "" || rest[0] == '/') {
				u.Files = append(u.Files, strings.TrimPrefix(rest, "/"))
			}
		}
		slices.Sort(u.Files)
		if u.Files = slices.Compact(u.Files); len(u.Files) > 0 {
			users = append(users, u)
		}
	}
	return users, nil
}

// filesOf lists what a process has open or mapped, or waits to open, and its directories.
func filesOf(pid int) (paths []string) {
	dir := fmt.Sprintf("/proc/%d/", pid)
	links := []string{dir + "cwd", dir + "root", dir + "exe"}
	descriptors, _ := os.ReadDir(dir + "fd")
	for _, d := range descriptors {
		links = append(links, filepath.Join(dir, "fd", d.Name()))
	}
	for _, link := range links {
		if path, err := os.Readlink(link); err == nil {
			paths = append(paths, path)
		}
	}
	maps, _ := os.ReadFile(dir + "maps")
	for line := range strings.Lines(string(maps)) {
		if i := strings.IndexByte(line, '/'); i >= 0 {
			paths = append(paths, strings.TrimSuffix(line[i:], "\n"))
		}
	}
	threads, _ := os.ReadDir(dir + "task")
	for _, t := range threads {
		if path := openedBy(dir, t.Name()); path != "" {
			paths = append(paths, path)
		}
	}
	return paths
}

// openedBy is the file that a thread has asked the kernel to open, until that has answered.
func openedBy(process, thread string) string {
	call, _ := os.ReadFile(filepath.Join(process, "task", thread, "syscall"))
	var number, at int64
	var name uint64
	if n, _ := fmt.Sscan(string(call), &number, &at, &name); n < 3 || number != unix.SYS_OPENAT {
		return ""
	}
	memory, err := os.Open(process + "mem")
	if err != nil {
		return ""
	}
	defer memory.Close()
	text := make([]byte, unix.PathMax)
	n, _ := memory.ReadAt(text, int64(name)) // up to what is mapped
	path, _, ended := strings.Cut(string(text[:n]), "\x00")
	if !ended {
		return ""
	}
	if filepath.IsAbs(path) {
		return filepath.Clean(path)
	}
	folder := process + "cwd"
	if int32(at) != unix.AT_FDCWD {
		folder = process + "fd/" + strconv.Itoa(int(int32(at)))
	}
	folder, _ = os.Readlink(folder)
	return filepath.Join(folder, path)
}

// processes lists the processes that can be seen, by number.
func processes() (pids []int) {
	entries, _ := os.ReadDir("/proc")
	for _, e := range entries {
		if pid, err := strconv.Atoi(e.Name()); err == nil {
			pids = append(pids, pid)
		}
	}
	slices.Sort(pids)
	return pids
}

// commandOf is the name of a process.
func commandOf(pid int) string {
	name, _ := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid))
	return strings.TrimSpace(string(name))
}
