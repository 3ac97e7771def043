package tier

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A shelf is the files of the extents of one dataset. It knows their keys and whether they are
// intact, but not who reads them or when one is kept.
type shelf struct {
	room    *room
	dir     *os.File // of the dataset
	lock    *os.File
	direct  atomic.Bool
	files   sync.Pool   // of []byte: memory for direct writes
	readers chan []byte // memory for direct reads; nil: not made yet

	renew atomic.Bool  // see Tier.Renew
	since atomic.Int64 // nanoseconds since 1970: what nobody has used since then is old
	old   old
}

// As many reads run at a time, with as much memory each. More is read in several steps.
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

// openFile opens a file in the dataset's directory for direct reads or writes, or normal ones where
// the file system has no direct ones. What is in the place of an extent and is no file, such as a
// FIFO, which nobody may ever write to, is not waited for, and no link is followed.
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
		s.direct.Store(false) // it is the file system that has no direct reads
	}
	return fd, err
}

// look reads a part of an extent, which is then used, or removed if doomed says so of what came of
// the read. found is false if there is none for the key, of any version.
func (s *shelf) look(k Key, p []byte, offset int64, doomed func(error) bool) (found bool, err error) {
	return s.visit(k, doomed, func(fd int, size int64) error { return s.read(fd, k, p, offset, size) })
}

// visit has an extent read by a function that gets its file, which has so many bytes. What becomes
// of it is as of look.
func (s *shelf) visit(k Key, doomed func(error) bool, read func(fd int, size int64) error) (found bool, err error) {
	fd, err := s.openFile(k.name(), unix.O_RDONLY)
	if err != nil {
		return false, err
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err = unix.Fstat(fd, &st); err == nil {
		err = read(fd, st.Size)
	}
	if doomed(err) {
		s.drop(fd, k)
	} else if err == nil {
		s.use(k, st.Mtim.Nano())
	}
	return true, err
}

// read reads a part of an extent from its file, which has so many bytes.
func (s *shelf) read(fd int, k Key, p []byte, offset, size int64) error {
	file := <-s.readers
	defer func() { s.readers <- file }()
	if file == nil {
		file = aligned(unit + readBytes)
	}
	n, there, err := s.begin(fd, k, file, offset, int64(len(p)), size)
	if err == nil && offset+int64(len(p)) > n {
		err = errDamaged
	}
	if err != nil {
		return err
	}
	return s.copy(fd, file, there, n, p, offset)
}

// errNoMemory means that the caller has none for an extent.
var errNoMemory = errors.New("no memory for an extent")

// Part says which bytes of an object are needed besides the first ones, head, of all size; not ok:
// all.
type Part func(head []byte, size int64) (from, to int64, ok bool)

// readPart reads the first bytes of an extent, and then the part of which the caller says that it
// is needed. grow returns memory for all n bytes of the extent.
func (s *shelf) readPart(fd int, k Key, first, size int64, grow func(n int) []byte, part Part) (p []byte, read int64, err error) {
	file := <-s.readers
	defer func() { s.readers <- file }()
	if file == nil {
		file = aligned(unit + readBytes)
	}
	n, there, err := s.begin(fd, k, file, 0, first, size)
	if err != nil {
		return nil, 0, err
	}
	if p = grow(int(n)); cap(p) < int(n) {
		return nil, 0, errNoMemory
	}
	p, first = p[:n], min(first, n)
	if err := s.copy(fd, file, there, n, p[:first], 0); err != nil || first == n {
		return p, n, err
	}
	from, to, ok := part(p[:first], n)
	if from, to = max(from, first), min(to, n); !ok {
		from, to = first, n
	}
	to = max(from, to)
	return p, first + to - from, s.copy(fd, file, 0, n, p[from:to], from)
}

// begin reads the header of an extent into the beginning of file, and checks it. Where length bytes
// from an offset on begin in the first chunk, as many of these as there is room for follow. It
// returns the size of the extent, and of what follows.
func (s *shelf) begin(fd int, k Key, file []byte, offset, length, size int64) (n, there int64, err error) {
	header := file[:unit]
	if offset < chunkBytes { // one read for both
		header = file[:min(unit+readBytes, unit+roundUp(offset+length, chunkBytes), size)]
	}
	if err = readFull(fd, header, 0); err == nil {
		n, err = check(file[:unit], k, size)
	}
	return n, int64(len(header) - unit), err
}

// copy copies a part of an extent of n bytes, of which file has the header, and the first bytes
// that are there.
func (s *shelf) copy(fd int, file []byte, there, n int64, p []byte, offset int64) error {
	data := file[unit:]
	for len(p) > 0 {
		from := offset / chunkBytes * chunkBytes
		to := min(from+readBytes, roundUp(offset+int64(len(p)), chunkBytes), n)
		if from > 0 || to > there {
			if err := readFull(fd, data[:roundUp(to-from, unit)], unit+from); err != nil {
				return err
			}
		}
		if err := checkChunks(file[:unit], data[:to-from], int(from/chunkBytes)); err != nil {
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

// drop removes an extent that was opened, if it is still the one that has its name.
func (s *shelf) drop(fd int, k Key) {
	var was, now unix.Stat_t
	if unix.Fstat(fd, &was) != nil || unix.Fstatat(s.fd(), k.name(), &now, 0) != nil || was.Ino != now.Ino {
		return
	}
	if unix.Unlinkat(s.fd(), k.name(), 0) == nil {
		s.room.give(was.Size)
	}
}

// remove removes the extent of a key, if there is one. One of another version stays.
func (s *shelf) remove(k Key) {
	_, _ = s.look(k, nil, 0, func(err error) bool { return err != errVersion })
}

// has says whether there is an extent for a key, which is then used. It removes one of another
// version.
func (s *shelf) has(k Key) bool {
	_, err := s.look(k, nil, 0, func(err error) bool { return err == errVersion })
	return err == nil
}

func (s *shelf) write(k Key, file []byte) error {
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

// aligned makes n bytes at an address that is good for direct reads and writes.
func aligned(n int) []byte {
	b := make([]byte, n+unit)
	skip := -int(uintptr(unsafe.Pointer(&b[0]))) & (unit - 1)
	return b[skip:][:n]
}
