package pinned

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// lockError says that the kernel refused to page-lock n bytes, why, and how to fix it.
func lockError(n int64, err error) error {
	err = fmt.Errorf("page-lock %d KiB: %w", roundUp(n, 1<<10)>>10, err)
	var limit unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_MEMLOCK, &limit) != nil || limit.Cur == unix.RLIM_INFINITY {
		return err
	}
	const remedy = "raise it (ulimit -l unlimited, or LimitMEMLOCK=infinity in a systemd unit), or give the process CAP_IPC_LOCK"
	return fmt.Errorf("%w: RLIMIT_MEMLOCK is %d KiB: %s", err, limit.Cur>>10, remedy)
}

// CanLock returns nil if this process may page-lock n more bytes, else the reason and the remedy.
// It asks the kernel, since nothing else knows which privileges count in a container, and leaves
// nothing locked.
func CanLock(n int64) error {
	if n <= 0 {
		return nil
	}
	m, err := unix.Mmap(-1, 0, int(n), unix.PROT_NONE, unix.MAP_PRIVATE|unix.MAP_ANON|unix.MAP_NORESERVE)
	if err != nil {
		return lockError(n, fmt.Errorf("map it: %w", err))
	}
	defer unix.Munmap(m)
	return lock(kernel{}, m)
}

// lock page-locks memory: resident pages now, others when they are faulted in. It faults nothing
// in, so it takes no time and may cover memory past the end of a file.
func lock(s system, m []byte) error {
	if len(m) == 0 {
		return nil
	}
	if err := s.lock(m); err != nil {
		return lockError(int64(len(m)), err)
	}
	return nil
}
