package pinned

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// A LockError says that the kernel refused to page-lock memory.
type LockError struct {
	Size  int64 // bytes to be locked
	Limit int64 // RLIMIT_MEMLOCK in bytes, for all locked memory of the process; -1 without a limit
	Err   error // the kernel's error
}

// Error says what was refused, why, and how to fix it.
func (e *LockError) Error() string {
	what := fmt.Sprintf("page-lock %d KiB: %v", kib(e.Size), e.Err)
	if e.Limit < 0 {
		return what
	}
	return fmt.Sprintf("%s: RLIMIT_MEMLOCK is %d KiB: %s", what, e.Limit>>10, e.Hint())
}

// Hint says how to fix it; empty if the limit is not the reason.
func (e *LockError) Hint() string {
	if e.Limit < 0 {
		return ""
	}
	return "raise it (ulimit -l unlimited, or LimitMEMLOCK=infinity in a systemd unit), or give the process CAP_IPC_LOCK"
}

// Unwrap returns the kernel's error.
func (e *LockError) Unwrap() error { return e.Err }

func kib(n int64) int64 { return roundUp(n, 1<<10) >> 10 }

func lockError(size int64, err error) *LockError {
	e := &LockError{Size: size, Limit: -1, Err: err}
	var limit unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_MEMLOCK, &limit) == nil && limit.Cur != unix.RLIM_INFINITY {
		e.Limit = int64(limit.Cur)
	}
	return e
}

// CanLock returns nil if this process may page-lock n bytes more than it has locked now, else a
// *LockError. It asks the kernel, since nothing else knows what privileges mean in a container,
// and leaves nothing locked.
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
// in, so it takes no time and may cover what is past the end of a file.
func lock(s system, m []byte) error {
	if len(m) == 0 {
		return nil
	}
	if err := s.lock(m); err != nil {
		return lockError(int64(len(m)), err)
	}
	return nil
}
