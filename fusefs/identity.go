package fusefs

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/moby/sys/mountinfo"
	"golang.org/x/sys/unix"
)

const (
	mountName = "batchfs"
	fsType    = "fuse." + mountName
)

// An identity identifies one mount. A path does not: the mount may have been moved, and
// another may have taken its place. Nor do the ids in /proc/self/mountinfo or device
// numbers: the kernel reuses those of a mount that is gone.
type identity struct {
	unique uint64 // never reused; 0: the kernel has no such id (before Linux 6.8)
	id     int    // as in /proc/self/mountinfo
	device string // major:minor, unique while the file system exists anywhere
}

// identify returns the identity of the mount at a path or descriptor. It sends no request
// to the file system, which may be this process's own.
func identify(dir int, path string) (m identity, err error) {
	const flags = unix.AT_EMPTY_PATH | unix.AT_SYMLINK_NOFOLLOW | unix.AT_NO_AUTOMOUNT | unix.AT_STATX_DONT_SYNC
	var st unix.Statx_t
	if err := unix.Statx(dir, path, flags, unix.STATX_MNT_ID, &st); err != nil {
		return m, fmt.Errorf("identify the mount: %w", err)
	}
	m = identity{id: int(st.Mnt_id), device: fmt.Sprintf("%d:%d", st.Dev_major, st.Dev_minor)}
	err = unix.Statx(dir, path, flags, unix.STATX_MNT_ID_UNIQUE, &st)
	if err == nil && st.Mask&unix.STATX_MNT_ID_UNIQUE != 0 {
		m.unique = st.Mnt_id
	}
	return m, nil
}

// identityOf returns the identity of an entry of the mount table.
func identityOf(e *mountinfo.Info) identity {
	if e == nil {
		return identity{}
	}
	return identity{id: e.ID, device: fmt.Sprintf("%d:%d", e.Major, e.Minor)}
}

// find looks for the mount in this process's mount table, wherever it was moved: nil if it
// is gone. While the connection is alive, no other mount has its device.
func (m identity) find() (*mountinfo.Info, error) {
	entries, err := mountinfo.GetMounts(nil)
	if err != nil {
		return nil, fmt.Errorf("read what is mounted: %w", err)
	}
	m.unique = 0
	return first(entries, func(e *mountinfo.Info) bool { return identityOf(e) == m }), nil
}

// topMount finds the visible mount at a path: of the mounts stacked there, the one that no other
// covers; nil if there is none.
func topMount(entries []*mountinfo.Info, path string) *mountinfo.Info {
	covered := map[int]bool{}
	for _, e := range entries {
		if e.Mountpoint == path && e.Parent != e.ID {
			covered[e.Parent] = true
		}
	}
	return first(entries, func(e *mountinfo.Info) bool { return e.Mountpoint == path && !covered[e.ID] })
}

// first is the first entry for which a condition holds, or nil.
func first(entries []*mountinfo.Info, condition func(*mountinfo.Info) bool) *mountinfo.Info {
	if i := slices.IndexFunc(entries, condition); i >= 0 {
		return entries[i]
	}
	return nil
}

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
		dir := fmt.Sprintf("/proc/%d", pid)
		space, err := os.Readlink(dir + "/ns/mnt")
		if err != nil || seen[space] { // it has ended, or belongs to another user
			continue
		}
		text, err := os.ReadFile(dir + "/mountinfo")
		mounts, badText := mountinfo.GetMountsFromReader(bytes.NewReader(text), nil)
		if err != nil || badText != nil {
			continue
		}
		seen[space] = true
		e := first(mounts, func(e *mountinfo.Info) bool { return identityOf(e).device == device && e.FSType == fsType })
		switch {
		case e == nil:
		case space == own:
			found = append(found, Holder{Path: e.Mountpoint})
		default:
			found = append(found, Holder{pid, commandOf(pid), e.Mountpoint})
		}
	}
	return found
}

// realPath makes a mountpoint absolute and free of links, as the kernel lists it. It sends
// no request to the file system mounted there, which may be dead or hang. The error names
// the mountpoint.
func realPath(mountpoint string) (string, error) {
	fd, err := unix.Open(mountpoint, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return "", mountpointError(mountpoint, err)
	}
	defer unix.Close(fd)
	return os.Readlink("/proc/self/fd/" + strconv.Itoa(fd))
}

// mountpointError names the mountpoint once: it strips the operation and the path from err.
func mountpointError(mountpoint string, err error) error {
	if p, ok := errors.AsType[*os.PathError](err); ok {
		err = p.Err
	}
	return fmt.Errorf("mountpoint %s: %w", mountpoint, err)
}
