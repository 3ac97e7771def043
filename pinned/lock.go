package pinned

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// A LockError says that the kernel refused to page-lock memory.
type LockError struct {
	Size  int64 // bytes that were to be locked
	Limit int64 // RLIMIT_MEMLOCK in bytes, which covers everything the process has locked; -1 without a limit
	Err   error // what the kernel said
}

// Error says what was refused, why, and what can be done about it.
func (e *LockError) Error() string {
	what := fmt.Sprintf("page-lock %d KiB: %v", kib(e.Size), e.Err)
	if e.Limit < 0 {
		return what
	}
	return fmt.Sprintf("%s: RLIMIT_MEMLOCK is %d KiB: %s", what, e.Limit>>10, e.Hint())
}

// Hint is what can be done about it; empty where the limit is not the reason.
func (e *LockError) Hint() string {
	if e.Limit < 0 {
		return ""
	}
	return "raise it (ulimit -l unlimited, or LimitMEMLOCK=infinity in a systemd unit), or give the process CAP_IPC_LOCK"
}

// Unwrap is what the kernel said.
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

// CanLock tells whether this process may page-lock n bytes more than it has
// locked by now: nil, or a *LockError. It asks the kernel, which alone knows what
// privileges are worth in a container, and leaves nothing locked.
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

// lock page-locks memory: the pages that are there, and the others as they come.
// It faults nothing in, so that it takes no time and may cover what is past the
// end of a file.
func lock(s system, m []byte) error {
	if len(m) == 0 {
		return nil
	}
	if err := s.lock(m); err != nil {
		return lockError(int64(len(m)), err)
	}
	return nil
}
