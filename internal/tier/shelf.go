package tier

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A shelf is the extent files of one dataset. It knows their keys and whether they are intact, but
// not who reads them or when one is kept.
type shelf struct {
	room    *room
	dir     *os.File // of the dataset
	lock    *os.File
	direct  atomic.Bool
	files   sync.Pool   // of []byte: memory for direct writes
	readers chan []byte // memory for direct reads; nil: not allocated yet

	renew atomic.Bool  // see Tier.Renew
	since atomic.Int64 // extents not used since this time (ns since 1970) are old
	old   old
}

// The number of concurrent reads, and the memory of each. A larger read takes several steps.
const (
	mostReaders = 32
	readBytes   = 512 << 10
)

// open opens the shelf of a dataset in the directory own. The caller closes it, even after an
// error.
func (s *shelf) open(own string) (err error) {
	s.readers = make(chan []byte, mostReaders)
	for range mostReaders {
		s.readers <- nil
	}
	s.direct.Store(true)
	if s.lock, err = openShared(filepath.Join(own, "lock")); err != nil {
		return err
	}
	if err := s.renewed(); err != nil {
		return err
	}
	if s.dir, err = os.Open(own); err != nil {
		return err
	}
	return makesUnnamed(s.dir, 0)
}

func (s *shelf) close() {
	for _, f := range []*os.File{s.dir, s.lock} {
		if f != nil {
			f.Close()
		}
	}
	s.room.close()
}

func (s *shelf) fd() int { return int(s.dir.Fd()) }

// openFile opens a file in the dataset's directory for direct reads or writes, or for normal ones
// if the file system has no direct ones. It follows no link, and does not wait for something in the
// place of an extent that is not a file, such as a FIFO that nobody writes to.
func (s *shelf) openFile(path string, flags int) (int, error) {
	flags |= unix.O_CLOEXEC | unix.O_NOFOLLOW | unix.O_NONBLOCK
	if s.direct.Load() {
		fd, err := unix.Openat(s.fd(), path, flags|unix.O_DIRECT, 0o600)
		if err != unix.EINVAL {
			return fd, err
		}
	}
	fd, err := unix.Openat(s.fd(), path, flags, 0o600)
	var st unix.Stat_t
	if err == nil && unix.Fstat(fd, &st) == nil && st.Mode&unix.S_IFMT == unix.S_IFREG {
		s.direct.Store(false) // the file system has no direct reads
	}
	return fd, err
}

// An extent is an open extent whose header was checked.
type extent struct {
	fd    int
	file  []byte // the header, followed by
	there int64  // this many of the extent's first bytes
	n     int64  // bytes of the whole extent
}

// look calls use with the extent of a key. wanted bytes from offset on are read first. Afterwards,
// it records that the extent was used, or removes it if doomed says so for use's error. found is
// false if there is no extent of the key, of any version.
func (s *shelf) look(k key, offset, wanted int64, doomed func(error) bool, use func(*extent) error) (found bool, err error) {
	fd, err := s.openFile(k.name(), unix.O_RDONLY)
	if err != nil {
		return false, err
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err = unix.Fstat(fd, &st); err == nil {
		err = s.read(fd, k, offset, wanted, st.Size, use)
	}
	if doomed(err) {
		s.drop(fd, k)
	} else if err == nil {
		s.use(k, st.Mtim.Nano())
	}
	return true, err
}

// read reads the header of an extent from its file of size bytes, and calls use. If the wanted part
// begins in the first chunk, as much of it as there is memory for is read with the header.
func (s *shelf) read(fd int, k key, offset, wanted, size int64, use func(*extent) error) (err error) {
	e := extent{fd: fd, file: <-s.readers}
	defer func() { s.readers <- e.file }()
	if e.file == nil {
		e.file = aligned(unit + readBytes)
	}
	first := e.file[:unit]
	if offset < chunkBytes {
		first = e.file[:min(unit+readBytes, unit+roundUp(offset+wanted, chunkBytes), size)]
	}
	if err = readFull(fd, first, 0); err == nil {
		e.there = int64(len(first) - unit)
		e.n, err = check(e.file[:unit], k, size)
	}
	if err != nil {
		return err
	}
	return use(&e)
}

// copy copies a part of the extent.
func (e *extent) copy(p []byte, offset int64) error {
	if offset+int64(len(p)) > e.n {
		return errDamaged
	}
	data := e.file[unit:]
	for len(p) > 0 {
		from := offset / chunkBytes * chunkBytes
		to := min(from+readBytes, roundUp(offset+int64(len(p)), chunkBytes), e.n)
		if from > 0 || to > e.there {
			e.there = 0 // other bytes are there now
			if err := readFull(e.fd, data[:roundUp(to-from, unit)], unit+from); err != nil {
				return err
			}
		}
		if err := checkChunks(e.file[:unit], data[:to-from], int(from/chunkBytes)); err != nil {
			return err
		}
		got := copy(p, data[offset-from:to-from])
		p, offset = p[got:], offset+int64(got)
	}
	return nil
}

func readFull(fd int, p []byte, offset int64) error {
	for len(p) > 0 {
		n, err := unix.Pread(fd, p, offset)
		switch {
		case err == unix.EINTR:
			continue
		case err != nil:
			return err
		case n == 0:
			return io.ErrUnexpectedEOF
		}
		p, offset = p[n:], offset+int64(n)
	}
	return nil
}

// drop removes an open extent, if it still has its name.
func (s *shelf) drop(fd int, k key) {
	var was, now unix.Stat_t
	if unix.Fstat(fd, &was) != nil || unix.Fstatat(s.fd(), k.name(), &now, 0) != nil || was.Ino != now.Ino {
		return
	}
	if unix.Unlinkat(s.fd(), k.name(), 0) == nil {
		s.room.give(was.Size)
	}
}

// remove removes the extent of a key, if it exists. It keeps another version.
func (s *shelf) remove(k key) {
	_, _ = s.look(k, 0, 0, func(err error) bool { return err != errVersion }, nothing)
}

// has says whether the extent of a key exists, and marks it as used. It removes another version.
func (s *shelf) has(k key) bool {
	_, err := s.look(k, 0, 0, func(err error) bool { return err == errVersion }, nothing)
	return err == nil
}

func nothing(*extent) error { return nil }

func (s *shelf) write(k key, file []byte) error {
	fd, err := s.openFile(".", unix.O_TMPFILE|unix.O_WRONLY)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	for at := 0; at < len(file); {
		n, err := unix.Pwrite(fd, file[at:], int64(at))
		if err != nil && err != unix.EINTR {
			return err
		}
		at += max(n, 0)
	}
	name, path := k.name(), fmt.Sprintf("/proc/self/fd/%d", fd)
	err = unix.Linkat(unix.AT_FDCWD, path, s.fd(), name, unix.AT_SYMLINK_FOLLOW)
	if err == unix.ENOENT {
		if err := unix.Mkdirat(s.fd(), name[:2], 0o700); err != nil && err != unix.EEXIST {
			return err
		}
		err = unix.Linkat(unix.AT_FDCWD, path, s.fd(), name, unix.AT_SYMLINK_FOLLOW)
	}
	return err
}

// memory returns n bytes of aligned memory.
func (s *shelf) memory(n int) []byte {
	if p, ok := s.files.Get().(*[]byte); ok && cap(*p) >= n {
		return (*p)[:n]
	}
	return aligned(n)
}

// aligned allocates n bytes at an address that is suitable for direct reads and writes.
func aligned(n int) []byte {
	b := make([]byte, n+unit)
	skip := -int(uintptr(unsafe.Pointer(&b[0]))) & (unit - 1)
	return b[skip:][:n]
}
