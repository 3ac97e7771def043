package pinned

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// system is the part of the kernel that this package uses, one method per system call, so that
// tests can make each of them fail.
type system interface {
	// temporary opens an unnamed file in the file system of a directory.
	temporary(dir int) (int, error)
	close(fd int)
	truncate(fd int, size int64) error
	allocate(fd int, mode uint32, from, n int64) error
	// allocated is how many bytes of memory a file has.
	allocated(fd int) int64
	// lease requests a lease on a file with F_WRLCK, and releases it with F_UNLCK.
	lease(fd, kind int) error
	// mapFile maps the first n bytes of a file, shared.
	mapFile(fd, n int) ([]byte, error)
	mapMemory(n int) ([]byte, error)
	remap(m []byte, n, flags int) ([]byte, error)
	unmap(m []byte)
	advise(m []byte, advice int) error
	lock(m []byte) error
}

// kernel is the real system.
type kernel struct{}

func (kernel) temporary(dir int) (int, error) {
	return unix.Openat(dir, ".", unix.O_TMPFILE|unix.O_RDWR|unix.O_CLOEXEC, 0o400)
}

func (kernel) truncate(fd int, size int64) error {
	for {
		if err := unix.Ftruncate(fd, size); err != unix.EINTR {
			return err
		}
	}
}

func (kernel) lease(fd, kind int) error {
	_, err := unix.FcntlInt(uintptr(fd), unix.F_SETLEASE, kind)
	return err
}

func (kernel) mapFile(fd, n int) ([]byte, error) {
	return unix.Mmap(fd, 0, n, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
}

func (kernel) mapMemory(n int) ([]byte, error) {
	return unix.Mmap(-1, 0, n, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
}

func (kernel) allocate(fd int, mode uint32, from, n int64) error {
	return unix.Fallocate(fd, mode, from, n)
}

func (kernel) allocated(fd int) int64 {
	var st unix.Stat_t
	_ = unix.Fstat(fd, &st) // cannot fail for an open file
	return st.Blocks * 512
}

func (kernel) remap(m []byte, n, flags int) ([]byte, error) { return unix.Mremap(m, n, flags) }
func (kernel) advise(m []byte, advice int) error            { return unix.Madvise(m, advice) }

// Neither can fail for files and mappings of our own.
func (kernel) close(fd int)   { _ = unix.Close(fd) }
func (kernel) unmap(m []byte) { _ = unix.Munmap(m) }

func (kernel) lock(m []byte) error {
	_, _, errno := unix.Syscall(unix.SYS_MLOCK2, uintptr(unsafe.Pointer(&m[0])), uintptr(len(m)), unix.MLOCK_ONFAULT)
	if errno != 0 {
		return errno
	}
	return nil
}

// pageSize is a variable because some arm64 kernels have 64 KiB pages.
var pageSize = int64(unix.Getpagesize())
