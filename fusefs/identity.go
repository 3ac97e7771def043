package fusefs

import (
	"errors"
	"fmt"
	"strconv"
	"unsafe"

	"golang.org/x/sys/unix"
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
		return identifyByPath(path)
	}
	m := identity{id: int(st.Mnt_id), device: fmt.Sprintf("%d:%d", st.Dev_major, st.Dev_minor)}
	if unique, err := lookAt(dir, path, unix.STATX_MNT_ID_UNIQUE); err == nil && unique.Mask&unix.STATX_MNT_ID_UNIQUE != 0 {
		m.unique = unique.Mnt_id
	}
	return m, nil
}

func identifyByPath(path string) (identity, error) {
	if path == "" {
		return identity{}, unix.ENOSYS
	}
	entry, ok, err := mountAt(path)
	if err == nil && !ok {
		err = fmt.Errorf("nothing is mounted at %s", path)
	}
	return identity{id: entry.id, device: entry.device}, err
}

func lookAt(dir int, path string, mask int) (st unix.Statx_t, err error) {
	const flags = unix.AT_EMPTY_PATH | unix.AT_SYMLINK_NOFOLLOW | unix.AT_NO_AUTOMOUNT | unix.AT_STATX_DONT_SYNC
	err = unix.Statx(dir, path, flags, mask, &st)
	return st, err
}

// find looks up the mount in this process's view of the file system, wherever it was moved;
// found is false if it is gone. covered is the type of a file system mounted over it, or
// "".
func (m identity) find() (entry mountEntry, covered string, found bool, err error) {
	id := m.id
	if m.unique != 0 {
		switch now, err := statmount(m.unique); {
		case err == nil:
			id = now
		case errors.Is(err, unix.ENOENT):
			return entry, "", false, nil
		}
	}
	entries, err := mounts()
	if err != nil {
		return entry, "", false, err
	}
	for _, e := range entries {
		if e.id != id || e.device != m.device {
			continue
		}
		if top, ok := topMount(entries, e.path); ok && top.id != id {
			covered = top.fsType
		}
		return e, covered, true, nil
	}
	return entry, "", false, nil
}

// isAt reports whether this mount is the one visible at a path. It is the last check before
// acting on that path.
func (m identity) isAt(path string) bool {
	now, err := identify(unix.AT_FDCWD, path)
	return err == nil && now == m
}

// statmount asks the kernel for the current id of the mount with a unique id.
func statmount(unique uint64) (id int, err error) {
	// As in linux/mount.h. The kernel omits fields beyond these.
	request := struct {
		size, spare uint32
		id, mask    uint64
	}{24, 0, unique, statmountBasic}
	var answer struct {
		size, _    uint32
		mask       uint64
		_          [3]uint64 // the superblock
		id, parent uint64
		oldID      uint32
		_          uint32
		_          [54]uint64
	}
	_, _, errno := unix.Syscall6(unix.SYS_STATMOUNT, uintptr(unsafe.Pointer(&request)), uintptr(unsafe.Pointer(&answer)), unsafe.Sizeof(answer), 0, 0, 0)
	if errno != 0 {
		return 0, errno
	}
	if answer.mask&statmountBasic == 0 {
		return 0, unix.ENOSYS
	}
	return int(answer.oldID), nil
}

const statmountBasic = 2 // STATMOUNT_MNT_BASIC

// detachExactly detaches this mount, and no other one that may have just taken its path: it
// unmounts through a descriptor.
func (m identity) detachExactly(path string) error {
	fd, err := unix.Open(path, unix.O_PATH|unix.O_CLOEXEC|unix.O_NOFOLLOW, 0)
	if err != nil {
		return fmt.Errorf("unmount %s: %w", path, err)
	}
	defer unix.Close(fd)
	now, err := identify(fd, "")
	if err != nil {
		return fmt.Errorf("unmount %s: %w", path, err)
	}
	if now != m {
		return fmt.Errorf("unmount %s: %w", path, errReplaced)
	}
	if err := unix.Unmount("/proc/self/fd/"+strconv.Itoa(fd), unix.MNT_DETACH); err != nil {
		return fmt.Errorf("unmount %s: %w", path, err)
	}
	return nil
}

// errReplaced means that another mount has taken this one's place.
var errReplaced = errors.New("another mount is there now")
