package stress

import (
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// rawSleep sleeps without Go's scheduler.
//
//go:norace
//go:nosplit
func rawSleep(ts *unix.Timespec) {
	syscall.RawSyscall(unix.SYS_NANOSLEEP, uintptr(unsafe.Pointer(ts)), 0, 0)
}
