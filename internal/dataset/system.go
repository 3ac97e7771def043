package dataset

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// system is the set of system calls used to read files. Tests replace it with one that fails.
// Each method is a single call that a signal may interrupt (EINTR).
type system interface {
	// open opens a path relative to a directory; an absolute path stands for itself. Something that
	// cannot be opened because it is not a regular file is ErrNotFile.
	open(dir, path string) (fd int, err error)
	// stat returns a file's identity, and ErrNotFile if it is not a regular file.
	stat(fd int) (Identity, error)
	// look is stat for a path, which is resolved as in open.
	look(dir, path string) (Identity, error)
	// direct turns direct reads on or off.
	direct(fd int, on bool) error
	// cached reports whether a range of a file is in the page cache, if the kernel tells this
	// process.
	cached(fd int, offset, n int64) bool
	// pread reads up to len(p) bytes; 0 at the end of the file.
	pread(fd int, p []byte, offset int64) (int, error)
	// advise gives the kernel advice about the file's pages in the page cache.
	advise(fd int, advice int)
	close(fd int)
}

// kernel is the real system. Its calls do not allocate, except for very long paths.
type kernel struct{}

// openFlags: opening a FIFO or a device must not block, and a terminal must not become the
// process's controlling terminal.
const openFlags = unix.O_RDONLY | unix.O_CLOEXEC | unix.O_NONBLOCK | unix.O_NOCTTY

// open avoids unix.Open, which would copy the path to the heap for every file.
func (kernel) open(dir, path string) (int, error) {
	var room [512]byte
	name := appendPath(room[:0], dir, path)
	fd, _, errno := unix.Syscall6(unix.SYS_OPENAT, 0, uintptr(unsafe.Pointer(&name[0])), openFlags, 0, 0, 0)
	switch errno {
	case 0:
		return int(fd), nil
	case unix.ENXIO: // a socket, or a device without a driver
		return -1, ErrNotFile
	}
	return -1, errno
}

// appendPath appends the absolute path of a file, and a NUL.
func appendPath(b []byte, dir, path string) []byte {
	if path[0] != '/' {
		b = append(append(b, dir...), '/')
	}
	return append(append(b, path...), 0)
}

func (kernel) stat(fd int) (Identity, error) {
	var empty [1]byte
	return statx(fd, &empty[0], unix.AT_EMPTY_PATH)
}

func (kernel) look(dir, path string) (Identity, error) {
	var room [512]byte
	return statx(0, &appendPath(room[:0], dir, path)[0], 0)
}

func statx(fd int, path *byte, flags uintptr) (id Identity, err error) {
	var st unix.Statx_t
	_, _, errno := unix.Syscall6(unix.SYS_STATX, uintptr(fd), uintptr(unsafe.Pointer(path)), flags,
		unix.STATX_BASIC_STATS, uintptr(unsafe.Pointer(&st)), 0)
	if errno != 0 {
		return unknown, errno
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG {
		err = ErrNotFile
	}
	return Identity{Size: int64(st.Size), ModTime: st.Mtime.Sec*1e9 + int64(st.Mtime.Nsec)}, err
}

func (kernel) direct(fd int, on bool) error {
	flags := openFlags &^ unix.O_CLOEXEC
	if on {
		flags |= unix.O_DIRECT
	}
	_, err := unix.FcntlInt(uintptr(fd), unix.F_SETFL, flags)
	return err
}

// cached uses a call of kernel 6.5, which answers for files that the process owns or may write.
// Unlike RWF_NOWAIT, it starts no readahead.
func (kernel) cached(fd int, offset, n int64) bool {
	var found unix.Cachestat_t
	pages := (offset+n+pageSize-1)/pageSize - offset/pageSize
	err := unix.Cachestat(uint(fd), &unix.CachestatRange{Off: uint64(offset), Len: uint64(n)}, &found, 0)
	return err == nil && n > 0 && found.Cache >= uint64(pages)
}

var pageSize = int64(unix.Getpagesize())

func (kernel) pread(fd int, p []byte, offset int64) (int, error) {
	n, err := unix.Pread(fd, p, offset)
	return max(n, 0), err
}

// advise ignores errors, because the advice is only a hint.
func (kernel) advise(fd int, advice int) { _ = unix.Fadvise(fd, 0, 0, advice) }

func (kernel) close(fd int) { unix.Close(fd) }
