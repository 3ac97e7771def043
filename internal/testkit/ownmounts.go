package testkit

import (
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"syscall"

	"github.com/moby/sys/mountinfo"
	"golang.org/x/sys/unix"
)

// ownMountsMarker is an environment variable of processes that have their own namespace.
const ownMountsMarker = "BATCHFS_TEST_OWN_MOUNTS"

// EnterOwnMounts runs this program again in a new mount namespace without copies of batchfs mounts.
// It returns nil in the new process. It also returns nil, with a message on standard error, if
// making a namespace takes root or is forbidden even to root.
//
// A new namespace starts with a copy of every mount, which keeps a file system alive after it is
// unmounted elsewhere. If tests shared a namespace, those of one package, or a container started
// meanwhile, could hold the mounts of another.
func EnterOwnMounts() error {
	if os.Getuid() != 0 || os.Getenv(ownMountsMarker) != "" {
		return nil
	}
	runtime.LockOSThread() // the namespace belongs to the thread; exec extends it to the process
	if err := unix.Unshare(unix.CLONE_NEWNS); err != nil {
		fmt.Fprintln(os.Stderr, "the tests share this mount namespace:", err)
		runtime.UnlockOSThread()
		return nil
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("make all mounts private: %w", err)
	}
	mounts, err := mountinfo.GetMounts(nil)
	if err != nil {
		return err
	}
	for _, path := range copies(mounts) {
		if err := unix.Unmount(path, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW); err != nil {
			fmt.Fprintf(os.Stderr, "the tests keep a copy of %s: %v\n", path, err) // nothing on that mount covers it
		}
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	return syscall.Exec(self, os.Args, append(os.Environ(), ownMountsMarker+"=1"))
}

// copies returns the mountpoints of batchfs and of mounts that cover them, in the order to unmount.
func copies(mounts []*mountinfo.Info) (paths []string) {
	var ours []string
	for _, m := range mounts {
		if m.FSType == "fuse.batchfs" {
			ours = append(ours, m.Mountpoint)
		}
	}
	for _, m := range slices.Backward(mounts) { // later mounts cover earlier ones
		if slices.ContainsFunc(ours, func(path string) bool { return m.Mountpoint == path || strings.HasPrefix(m.Mountpoint, path+"/") }) {
			paths = append(paths, m.Mountpoint)
		}
	}
	return paths
}
