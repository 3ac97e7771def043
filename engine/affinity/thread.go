package affinity

import (
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Pin restricts the calling thread to the CPUs of a set; it does nothing for the empty set. The
// goroutine must be locked to its thread (runtime.LockOSThread) and must end without unlocking
// it, so that the thread ends too: otherwise other goroutines would run on the worker's CPUs.
// The error names the set and wraps the kernel's. The kernel silently drops CPUs that the
// process has lost since it was inspected, unless none remains.
func Pin(s Set) error {
	if s.Empty() {
		return nil
	}
	_, _, errno := unix.RawSyscall(unix.SYS_SCHED_SETAFFINITY, 0,
		uintptr(len(s.words)*8), uintptr(unsafe.Pointer(&s.words[0])))
	if errno != 0 {
		return fmt.Errorf("pin the thread to CPUs %s: %w", s, errno)
	}
	return nil
}

// Current returns the set of CPUs that the calling thread may run on.
func Current() (Set, error) { return maskOf(0) }

// maskOf returns the CPUs of a thread, 0 for the caller. The kernel refuses a buffer that cannot
// hold all the CPUs it was configured for, and does not say how many those are.
func maskOf(thread int) (Set, error) {
	for size := 16; ; size *= 2 {
		words := make([]uint64, size)
		n, _, errno := unix.RawSyscall(unix.SYS_SCHED_GETAFFINITY, uintptr(thread),
			uintptr(size*8), uintptr(unsafe.Pointer(&words[0])))
		switch {
		case errno == 0:
			return ofWords(words[:(n+7)/8]), nil
		case errno != unix.EINVAL || size*64 > maxCPUs:
			return Set{}, fmt.Errorf("ask for the CPUs of thread %d: %w", thread, errno)
		}
	}
}
