package fusefs

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"

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
	unique uint64 // never reused; 0: the kernel has none (before Linux 6.8)
	id     int    // as in /proc/self/mountinfo
	device string // major:minor, unique while the file system exists anywhere
}

// identify returns the identity of the mount at a path or descriptor. It sends no request
// to the file system, which may be this process's own.
func identify(dir int, path string) (identity, error) {
	st, err := lookAt(dir, path, unix.STATX_MNT_ID)
	if err != nil {
		return identity{}, fmt.Errorf("identify the mount: %w", err)
	}
	if st.Mask&unix.STATX_MNT_ID == 0 { // before Linux 5.8
		entry, err := mountAt(path)
		if err == nil && entry == nil {
			err = fmt.Errorf("identify the mount at %q: %w", path, unix.ENOSYS)
		}
		return identityOf(entry), err
	}
	m := identity{id: int(st.Mnt_id), device: fmt.Sprintf("%d:%d", st.Dev_major, st.Dev_minor)}
	if unique, err := lookAt(dir, path, unix.STATX_MNT_ID_UNIQUE); err == nil && unique.Mask&unix.STATX_MNT_ID_UNIQUE != 0 {
		m.unique = unique.Mnt_id
	}
	return m, nil
}

func lookAt(dir int, path string, mask int) (st unix.Statx_t, err error) {
	const flags = unix.AT_EMPTY_PATH | unix.AT_SYMLINK_NOFOLLOW | unix.AT_NO_AUTOMOUNT | unix.AT_STATX_DONT_SYNC
	err = unix.Statx(dir, path, flags, mask, &st)
	return st, err
}

// identityOf is what the mount table knows of an identity.
func identityOf(e *mountinfo.Info) identity {
	if e == nil {
		return identity{}
	}
	return identity{id: e.ID, device: fmt.Sprintf("%d:%d", e.Major, e.Minor)}
}

// find looks for the mount in this process's mount table, wherever it was moved: nil if it
// is gone. covered is the type of a file system mounted over it, or "". While the
// connection is alive, no other mount has its device; afterwards, isAt tells.
func (m identity) find() (entry *mountinfo.Info, covered string, err error) {
	entries, err := mountinfo.GetMounts(nil)
	if err != nil {
		return nil, "", fmt.Errorf("read what is mounted: %w", err)
	}
	m.unique = 0
	i := slices.IndexFunc(entries, func(e *mountinfo.Info) bool { return identityOf(e) == m })
	if i < 0 {
		return nil, "", nil
	}
	if top := topMount(entries, entries[i].Mountpoint); top != nil && top.ID != m.id {
		covered = top.FSType
	}
	return entries[i], covered, nil
}

// isAt reports whether this mount is the one visible at a path. It is the last check before
// acting on that path.
func (m identity) isAt(path string) bool {
	now, err := identify(unix.AT_FDCWD, path)
	return err == nil && now == m
}

// detach detaches this mount, and no other one that may have just taken its path: it
// unmounts through a descriptor.
func (m identity) detach(path string) error {
	fd, err := unix.Open(path, unix.O_PATH|unix.O_CLOEXEC|unix.O_NOFOLLOW, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	switch now, err := identify(fd, ""); {
	case err != nil:
		return err
	case now != m:
		return errReplaced
	}
	return unix.Unmount("/proc/self/fd/"+strconv.Itoa(fd), unix.MNT_DETACH)
}

// errReplaced means that another mount has taken this one's place.
var errReplaced = errors.New("another mount is there now")

// topMount finds the visible mount at a path: of the mounts stacked there, the one not
// covered by another; nil if there is none.
func topMount(entries []*mountinfo.Info, path string) *mountinfo.Info {
	covered := map[int]bool{}
	for _, e := range entries {
		if e.Mountpoint == path && e.Parent != e.ID {
			covered[e.Parent] = true
		}
	}
	for _, e := range entries {
		if e.Mountpoint == path && !covered[e.ID] {
			return e
		}
	}
	return nil
}

// mountAt finds the mount at a path returned by realPath; nil if there is none.
func mountAt(path string) (*mountinfo.Info, error) {
	entries, err := mountinfo.GetMounts(nil)
	if err != nil {
		return nil, fmt.Errorf("read what is mounted: %w", err)
	}
	return topMount(entries, path), nil
}

// realPath makes a mountpoint absolute and free of links, as the kernel lists it. It sends
// no request to the file system mounted there, which may be dead or hang. The error names
// the mountpoint.
func realPath(mountpoint string) (string, error) {
	path, err := filepath.Abs(mountpoint)
	if mountpoint == "" {
		err = unix.ENOENT
	}
	if err != nil {
		return "", mountpointError(mountpoint, err)
	}
	fd, err := unix.Open(path, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return "", mountpointError(mountpoint, err)
	}
	defer unix.Close(fd)
	return os.Readlink("/proc/self/fd/" + strconv.Itoa(fd))
}

// mountpointError names the mountpoint once: it strips the operation and the path from err.
func mountpointError(mountpoint string, err error) error {
	var p *os.PathError
	if errors.As(err, &p) {
		err = p.Err
	}
	return fmt.Errorf("mountpoint %s: %w", mountpoint, err)
}
