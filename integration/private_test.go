package integration

import (
	"fmt"
	"os"
	"runtime"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// privateMarker says that this process has its own mount namespace already.
const privateMarker = "BATCHFS_TEST_PRIVATE"

// makePrivate runs the tests again in a mount namespace of their own, where that is
// allowed: a container that somebody starts meanwhile would copy their mounts, and
// keep those alive after they were unmounted. For the same reason the copies that
// come with this namespace are let go of.
func makePrivate() error {
	if os.Getuid() != 0 || os.Getenv(privateMarker) != "" {
		return nil
	}
	runtime.LockOSThread() // the namespace is the thread's; exec makes it the process's
	if err := unix.Unshare(unix.CLONE_NEWNS); err != nil {
		fmt.Fprintln(os.Stderr, "the tests run in this mount namespace:", err)
		runtime.UnlockOSThread()
		return nil
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("make all mounts private: %w", err)
	}
	text, err := os.ReadFile("/proc/thread-self/mountinfo")
	if err != nil {
		return err
	}
	for line := range strings.Lines(string(text)) {
		before, after, _ := strings.Cut(line, " - ")
		if fields := strings.Fields(before); len(fields) > 4 && strings.HasPrefix(after, "fuse") && !strings.HasPrefix(after, "fusectl") {
			_ = unix.Unmount(fields[4], unix.MNT_DETACH) // a path with spaces in it is not found
		}
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	return syscall.Exec(self, os.Args, append(os.Environ(), privateMarker+"=1"))
}
