package dataset

import (
	"log/slog"
	"sync"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Storage says how the files of a dataset are read. The zero value reads them normally.
type Storage struct {
	// Direct keeps the dataset out of the page cache. Files are read with O_DIRECT. Where a
	// file system refuses that, they are read normally and then dropped from the page cache,
	// including pages that other programs brought in.
	Direct bool
	// MaxBandwidth limits all reads together, header scans included, in bytes per second; 0: no
	// limit.
	MaxBandwidth int64

	system system // nil: the kernel
}

// storage reads files as a Storage says.
type storage struct {
	system system
	direct bool
	limit  *limiter // nil: none
	log    *slog.Logger
	refuse sync.Once // logs that direct reads are not possible
}

func newStorage(o Storage, log *slog.Logger) *storage {
	s := &storage{system: o.system, direct: o.Direct, log: log}
	if s.system == nil {
		s.system = kernel{}
	}
	if o.MaxBandwidth > 0 {
		s.limit = newLimiter(o.MaxBandwidth)
	}
	return s
}

// directUnit is what offsets, lengths and addresses of direct reads are multiples of. It suits
// every disk; a file system that wants more refuses, and its files are read normally.
const directUnit = 4096

// file is an open regular file.
type file struct {
	fd   int
	id   Identity // when it was opened
	unit int      // directUnit, or 1 if the file is read normally
}

// room is the buffer space needed to read n bytes from the beginning of the file.
func (f *file) room(n int) int { return f.floor(n + f.unit - 1) }

// floor is the last offset up to n at which a read may begin.
func (f *file) floor(n int) int { return n &^ (f.unit - 1) }

func (f *file) direct() bool { return f.unit > 1 }

// open opens a path that leads to a regular file. The caller closes the file. On an error, the
// returned file holds at most an identity.
func (s *storage) open(dir, path string) (file, error) {
	fd, err := retry(func() (int, error) { return s.system.open(dir, path) })
	if err != nil {
		return file{fd: -1, id: unknown}, err
	}
	f := file{fd: fd, unit: 1}
	if f.id, err = s.stat(fd); err != nil {
		s.system.close(fd)
		return file{fd: -1, id: f.id}, err
	}
	if s.direct {
		if err := s.setDirect(&f, true); err != nil && !isLack(err) {
			s.refuse.Do(func() {
				s.log.Info("the file system does not read past the page cache; files are dropped from it after each read", "reason", err)
			})
		}
	}
	return f, nil
}

func (s *storage) stat(fd int) (Identity, error) {
	return retry(func() (Identity, error) { return s.system.stat(fd) })
}

// look returns the identity of the regular file that a path leads to.
func (s *storage) look(dir, path string) (Identity, error) {
	return retry(func() (Identity, error) { return s.system.look(dir, path) })
}

// setDirect switches f to direct reads, or to normal ones.
func (s *storage) setDirect(f *file, on bool) error {
	f.unit = 1
	_, err := retry(func() (struct{}, error) { return struct{}{}, s.system.direct(f.fd, on) })
	if on && err == nil {
		f.unit = directUnit
	}
	return err
}

func (s *storage) close(f *file) {
	s.drop(f.fd)
	s.system.close(f.fd)
}

// drop evicts a file from the page cache if direct reads are on. Direct reads leave nothing
// there themselves, but some file systems read some files through the cache anyway, and other
// programs may have read this one.
func (s *storage) drop(fd int) {
	if s.direct {
		s.system.advise(fd, unix.FADV_DONTNEED)
	}
}

// fill reads n bytes at an offset into buf; fewer are left if the file changed. If f is read
// directly, the offset must be a multiple of its unit, and fill may overwrite buf beyond the n
// bytes, up to room(n). A buffer unsuitable for direct reads switches f to normal reads.
// Closing stop ends a wait for bandwidth.
func (s *storage) fill(f *file, buf []byte, offset int64, n int, stop <-chan struct{}) (int, error) {
	if f.direct() && (cap(buf) < f.room(n) || !aligned(buf)) {
		if err := s.setDirect(f, false); err != nil {
			return 0, err
		}
	}
	got := 0
	for got < n {
		ask := n - got
		if s.limit != nil {
			ask = min(ask, f.room(s.limit.piece))
			if err := s.limit.take(ask, stop); err != nil {
				return got, err
			}
		}
		k, err := s.system.pread(f.fd, buf[got:got+f.room(ask)], offset+int64(got))
		if err == unix.EINTR {
			continue
		}
		if f.direct() && (err == unix.EINVAL || err == unix.EOPNOTSUPP) {
			k, err = 0, s.setDirect(f, false) // this one file has larger blocks, or lives elsewhere
		} else if k == 0 && err == nil {
			err = ErrChanged
		}
		if err != nil {
			return got, err
		}
		got = min(got+k, n)
		if got%f.unit != 0 && got < n { // end of file, or a short read
			if err := s.setDirect(f, false); err != nil {
				return got, err
			}
		}
	}
	return got, nil
}

// aligned says whether a buffer suits direct reads.
func aligned(buf []byte) bool { return uintptr(unsafe.Pointer(unsafe.SliceData(buf)))%directUnit == 0 }
