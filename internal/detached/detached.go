// Package detached makes file systems that are not attached to a directory. They end with their
// last descriptor, unless their mount is moved to a directory.
package detached

import (
	"fmt"
	"strings"

	"golang.org/x/sys/unix"
)

// Mount makes a file system of the given type, with options such as "ro" and "size=4096", and
// returns a descriptor of a mount of it. attributes are added to nosuid, nodev and noexec.
func Mount(fstype string, options []string, attributes int) (fd int, err error) {
	fs, err := unix.Fsopen(fstype, unix.FSOPEN_CLOEXEC)
	if err != nil {
		return -1, fmt.Errorf("fsopen %s: %w", fstype, err)
	}
	defer unix.Close(fs)
	for _, option := range options {
		if key, value, ok := strings.Cut(option, "="); ok {
			err = unix.FsconfigSetString(fs, key, value)
		} else {
			err = unix.FsconfigSetFlag(fs, key)
		}
		if err != nil {
			return -1, fmt.Errorf("%s option %s: %w", fstype, option, err)
		}
	}
	if err := unix.FsconfigCreate(fs); err != nil {
		return -1, fmt.Errorf("create %s: %w", fstype, err)
	}
	attributes |= unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV | unix.MOUNT_ATTR_NOEXEC
	if fd, err = unix.Fsmount(fs, unix.FSMOUNT_CLOEXEC, attributes); err != nil {
		return -1, fmt.Errorf("fsmount %s: %w", fstype, err)
	}
	return fd, nil
}
