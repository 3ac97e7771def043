package dataset

import (
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
)

// openFlags: a FIFO or a device must not keep the open waiting, and no terminal
// may become the process's own.
const openFlags = unix.O_RDONLY | unix.O_CLOEXEC | unix.O_NONBLOCK | unix.O_NOCTTY

// Identity is what tells a file from a later one at the same path.
type Identity struct {
	Size    int64 // bytes
	ModTime int64 // ns since 1970; UnknownTime: not known yet
}

// Known says whether the identity was ever learned.
func (id Identity) Known() bool { return id.ModTime != UnknownTime }

func identityOf(st *unix.Stat_t) Identity {
	return Identity{Size: st.Size, ModTime: mtimeOf(st)}
}

// openAt opens a NUL-terminated path. It goes around unix.Openat, which would
// copy the path to the heap for every file.
func openAt(dir int, path *byte) (int, error) {
	for {
		fd, _, errno := unix.Syscall6(unix.SYS_OPENAT, uintptr(dir),
			uintptr(unsafe.Pointer(path)), openFlags, 0, 0, 0)
		if errno == 0 {
			return int(fd), nil
		}
		if errno != unix.EINTR {
			return -1, errno
		}
	}
}

// statRegular returns the identity of an open file, if it is a regular one.
func statRegular(fd int) (Identity, error) {
	var st unix.Stat_t
	for {
		err := unix.Fstat(fd, &st)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return Identity{}, err
		}
		break
	}
	if !isRegular(&st) {
		return Identity{}, ErrNotFile
	}
	return identityOf(&st), nil
}

// readAt fills buf from offset, or returns how far it came at the end of file.
func readAt(fd int, buf []byte, offset int64) (int, error) {
	n := 0
	for n < len(buf) {
		k, err := unix.Pread(fd, buf[n:], offset+int64(n))
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return n, err
		}
		if k == 0 {
			break
		}
		n += k
	}
	return n, nil
}

// Read reads sample i's whole file into buf if it has the capacity, else into
// what grow(n) returns (at least n bytes, or less to refuse: [ErrTooLarge]).
// The bytes returned are the caller's memory, which on an error may hold part of
// the file. An identity that differs from the index before or after the read is
// [ErrChanged], a file that is gone [ErrMissing], both in a [FileError].
// It may be called concurrently, and allocates nothing unless it fails.
func (d *Dataset) Read(i int, buf []byte, grow func(n int) []byte) ([]byte, error) {
	fd, err := openAt(d.fd, d.table.cpath(i))
	if err != nil {
		return nil, d.fail(i, err)
	}
	data, err := d.readOpen(i, fd, buf, grow)
	unix.Close(fd)
	if err != nil {
		return nil, d.fail(i, err)
	}
	return data, nil
}

func (d *Dataset) readOpen(i, fd int, buf []byte, grow func(n int) []byte) ([]byte, error) {
	now, err := statRegular(fd)
	if err != nil {
		return nil, err
	}
	if !d.Same(i, now) {
		return nil, ErrChanged
	}
	n := int(now.Size)
	if cap(buf) < n && grow != nil {
		buf = grow(n)
	}
	if cap(buf) < n {
		return nil, ErrTooLarge
	}
	buf = buf[:n]
	got, err := readAt(fd, buf, 0)
	if err != nil {
		return nil, err
	}
	if after, err := statRegular(fd); err != nil || got < n || after != now {
		return nil, ErrChanged
	}
	if !d.learn(i, now) {
		return nil, ErrChanged
	}
	return buf, nil
}

// Check returns the identity that sample i's file has now, and [ErrChanged] or
// [ErrMissing] in a [FileError] if it is not the indexed one.
func (d *Dataset) Check(i int) (Identity, error) {
	st, err := statFrom(d.fd, d.table.path(i))
	if err != nil {
		return Identity{ModTime: UnknownTime}, d.fail(i, err)
	}
	now := identityOf(&st)
	if !isRegular(&st) {
		return now, d.fail(i, ErrNotFile)
	}
	if !d.Same(i, now) {
		return now, d.fail(i, ErrChanged)
	}
	if !d.learn(i, now) {
		return now, d.fail(i, ErrChanged)
	}
	return now, nil
}

// Same says whether id is the indexed identity of sample i. Where the index
// knows none (a manifest that gives the header), any identity is.
func (d *Dataset) Same(i int, id Identity) bool {
	want, known := d.table.identity(i)
	if !known || want == id {
		return true
	}
	// Accept may have been half way through replacing it.
	d.learning.Lock()
	defer d.learning.Unlock()
	want, _ = d.table.identity(i)
	return want == id
}

// learn keeps an identity that the index did not have, so that from the first
// read on a change is noticed. It returns whether id is what is known now: of
// two first readers who saw different files only one may be right.
func (d *Dataset) learn(i int, id Identity) bool {
	if want, known := d.table.identity(i); known {
		return want == id
	}
	d.learning.Lock()
	defer d.learning.Unlock()
	if want, known := d.table.identity(i); known {
		return want == id
	}
	d.table.setIdentity(i, id)
	return true
}

// fail gives an error the sample's path and the package's words for it.
func (d *Dataset) fail(i int, err error) error {
	switch err {
	case unix.ENOENT, unix.ENOTDIR:
		err = ErrMissing
	case ErrNotFile:
		// What was a file when it was indexed has changed into something else.
		if _, known := d.table.identity(i); known {
			err = fmt.Errorf("%w: %w", ErrChanged, ErrNotFile)
		}
	}
	return &FileError{Path: d.Path(i), Err: err}
}
