package dataset

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// system is the set of system calls used to read files. Tests replace it with one that fails.
// Each method is a single call that a signal may interrupt (EINTR).
type system interface {
	// open opens a NUL-terminated path relative to a directory.
	open(dir int, path *byte) (fd int, err error)
	// stat returns a file's identity and device, and ErrNotFile if it is not a regular file.
	stat(fd int) (id Identity, dev uint64, err error)
	// look is stat by a path relative to a directory.
	look(dir int, path string) (Identity, error)
	// alignment returns the alignment that direct reads need, 0 if they are not supported;
	// known is false if the system does not report it.
	alignment(fd int) (align int, known bool)
	// direct turns direct reads on or off.
	direct(fd int, on bool) error
	// pread reads up to len(p) bytes; 0 at the end of the file.
	pread(fd int, p []byte, offset int64) (int, error)
	// advise gives the kernel advice about the file's pages in the page cache.
	advise(fd int, advice int)
	close(fd int)
}

// kernel is the real system. Its calls do not allocate.
type kernel struct{}

// openFlags: opening a FIFO or a device must not block, and a terminal must not become the
// process's controlling terminal.
const openFlags = unix.O_RDONLY | unix.O_CLOEXEC | unix.O_NONBLOCK | unix.O_NOCTTY

// open avoids unix.Openat, which would copy the path to the heap for every file.
func (kernel) open(dir int, path *byte) (int, error) {
	fd, _, errno := unix.Syscall6(unix.SYS_OPENAT, uintptr(dir), uintptr(unsafe.Pointer(path)), openFlags, 0, 0, 0)
	if errno != 0 {
		return -1, errno
	}
	return int(fd), nil
}

func (kernel) stat(fd int) (Identity, uint64, error) {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return unknown, 0, err
	}
	id, err := identityOf(&st)
	return id, st.Dev, err
}

func (kernel) look(dir int, path string) (Identity, error) {
	var st unix.Stat_t
	if err := unix.Fstatat(dir, path, &st, 0); err != nil {
		return unknown, err
	}
	return identityOf(&st)
}

// identityOf returns a file's identity, and ErrNotFile if it is not a regular file.
func identityOf(st *unix.Stat_t) (Identity, error) {
	id := Identity{Size: st.Size, ModTime: st.Mtim.Nano()}
	if st.Mode&unix.S_IFMT != unix.S_IFREG {
		return id, ErrNotFile
	}
	return id, nil
}

func (kernel) alignment(fd int) (align int, known bool) {
	var st unix.Statx_t
	err := unix.Statx(fd, "", unix.AT_EMPTY_PATH, unix.STATX_DIOALIGN, &st)
	if err != nil || st.Mask&unix.STATX_DIOALIGN == 0 {
		return 0, false
	}
	if st.Dio_mem_align == 0 || st.Dio_offset_align == 0 {
		return 0, true
	}
	return int(max(st.Dio_mem_align, st.Dio_offset_align)), true
}

func (kernel) direct(fd int, on bool) error {
	flags := openFlags &^ unix.O_CLOEXEC
	if on {
		flags |= unix.O_DIRECT
	}
	_, err := unix.FcntlInt(uintptr(fd), unix.F_SETFL, flags)
	return err
}

func (kernel) pread(fd int, p []byte, offset int64) (int, error) {
	n, err := unix.Pread(fd, p, offset)
	return max(n, 0), err
}

// advise ignores errors, because the advice is only a hint.
func (kernel) advise(fd int, advice int) { _ = unix.Fadvise(fd, 0, 0, advice) }

func (kernel) close(fd int) { unix.Close(fd) }
