package integration

import (
	"fmt"
	"os"
	"runtime"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// privateMarker marks a process that already has its own mount namespace.
const privateMarker = "BATCHFS_TEST_PRIVATE"

// makePrivate runs the tests again in their own mount namespace, if that is allowed.
// Otherwise a container started meanwhile would copy their mounts and keep them alive after
// unmounting. For the same reason it unmounts the copies of other mounts that come with the
// namespace.
func makePrivate() error {
	if os.Getuid() != 0 || os.Getenv(privateMarker) != "" {
		return nil
	}
	runtime.LockOSThread() // the namespace belongs to the thread; exec extends it to the process
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
			_ = unix.Unmount(fields[4], unix.MNT_DETACH) // fails for a path with spaces
		}
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	return syscall.Exec(self, os.Args, append(os.Environ(), privateMarker+"=1"))
}
