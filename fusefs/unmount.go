package fusefs

import (
	"bytes"
	"errors"
	"fmt"
	"os/exec"
	"strings"

	"golang.org/x/sys/unix"
)

// Clear detaches dead batchfs mounts from a mountpoint and reports whether there were any.
// It leaves mounts that are alive, hang, or are not batchfs.
func Clear(mountpoint string) (bool, error) {
	path, err := realPath(mountpoint)
	if err != nil {
		return false, fmt.Errorf("mountpoint %s: %w", mountpoint, plainPathError(err))
	}
	cleared := false
	for last := -1; ; {
		m, ok, err := mountAt(path)
		if err != nil || !ok || m.fsType != fsType || m.id == last {
			return cleared, err
		}
		dead, err := isDead(path)
		if err != nil || !dead {
			return cleared, err
		}
		if err := unmount(path, true); err != nil {
			return cleared, err
		}
		cleared, last = true, m.id
	}
}

// Unmount ends the batchfs mount at a mountpoint, from any process that may: directly with
// CAP_SYS_ADMIN, otherwise through fusermount3. lazy detaches it at once and lets its users
// finish; a dead mount is always detached. The error wraps ErrNotMounted if there is no
// batchfs, and unix.EBUSY if it is in use. A *HeldError means that it is unmounted here,
// but another mount namespace keeps it alive.
func Unmount(mountpoint string, lazy bool) error {
	path, err := realPath(mountpoint)
	if err != nil {
		return fmt.Errorf("mountpoint %s: %w", mountpoint, plainPathError(err))
	}
	m, ok, err := mountAt(path)
	if err != nil {
		return err
	}
	if !ok || m.fsType != fsType {
		return fmt.Errorf("mountpoint %s: %w", mountpoint, ErrNotMounted)
	}
	if !lazy {
		// A hanging mount is unmounted like a live one, which works if it is unused.
		lazy, _ = isDead(path)
	}
	if err := unmount(path, lazy); err != nil {
		return err
	}
	if held := holders(m.device); len(held) > 0 {
		return &HeldError{held}
	}
	return nil
}

// unmount removes the topmost mount at a path.
func unmount(path string, lazy bool) error {
	if !privileged() {
		return fusermount(path, lazy)
	}
	flags := unix.UMOUNT_NOFOLLOW
	if lazy {
		flags |= unix.MNT_DETACH
	}
	if err := unix.Unmount(path, flags); err != nil {
		return fmt.Errorf("unmount %s: %w", path, err)
	}
	return nil
}

// fusermount unmounts through fusermount, which may unmount for ordinary users.
func fusermount(path string, lazy bool) error {
	program, err := findFusermount()
	if err != nil {
		return fmt.Errorf("unmount %s: %w", path, err)
	}
	args := []string{"-u", path}
	if lazy {
		args = []string{"-u", "-z", path}
	}
	var words bytes.Buffer
	cmd := exec.Command(program, args...)
	cmd.Dir = "/" // never a directory of the mount
	cmd.Stderr = &words
	if err := cmd.Run(); err != nil {
		return fusermountError(path, words.String(), err)
	}
	return nil
}

// fusermountError makes an error from fusermount's output. The output is meant for people,
// but programs need to know if the mount is busy.
func fusermountError(path, words string, err error) error {
	words = strings.TrimSpace(words)
	if strings.Contains(strings.ToLower(words), unix.EBUSY.Error()) {
		return fmt.Errorf("unmount %s: %w", path, unix.EBUSY)
	}
	if strings.Contains(words, "not found in /etc/mtab") { // where fusermount looks for the owner
		return fmt.Errorf("unmount %s: %w", path, ErrNotYours)
	}
	if words == "" {
		words = err.Error()
	}
	return fmt.Errorf("unmount %s: %s", path, words)
}

// ErrNotYours means that this unprivileged user owns no such mount.
var ErrNotYours = errors.New("it is no mount of this user")

// ErrNoFusermount means that an unprivileged user cannot mount or unmount.
var ErrNoFusermount = errors.New("fusermount3 is not installed, and mounting without it needs CAP_SYS_ADMIN")

func findFusermount() (string, error) {
	for _, name := range []string{"fusermount3", "/bin/fusermount3", "fusermount", "/bin/fusermount"} {
		if path, err := exec.LookPath(name); err == nil {
			return path, nil
		}
	}
	return "", ErrNoFusermount
}

// privileged reports whether this process may mount by itself.
func privileged() bool {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	if err := unix.Capget(&header, &data[0]); err != nil {
		return false
	}
	return data[0].Effective&(1<<unix.CAP_SYS_ADMIN) != 0
}
