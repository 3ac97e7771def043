package dataset

import (
	"context"
	"log/slog"
	"sync"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/batchfs/batchfs/internal/archive"
	"github.com/batchfs/batchfs/internal/store"
)

// Storage says how the files of a dataset are read. The zero value reads them normally.
type Storage struct {
	// Direct keeps the dataset out of the page cache. A sample that is entirely in the page cache
	// is read from there, and stays. Others are read with O_DIRECT. Where a file system refuses
	// that, files are read normally and then dropped from the page cache.
	Direct bool
	// MaxBandwidth limits all reads together, header scans included, in bytes per second; 0: no
	// limit.
	MaxBandwidth int64
	// Unchecked skips comparing samples with the checksums in their archives.
	Unchecked bool
	// LocalCache keeps what is read from a store.
	LocalCache LocalCache

	system system // nil: the kernel
}

// storage finds and reads the files or objects of a source, as a Storage says.
type storage struct {
	src    *source
	system system
	direct bool
	limit  *limiter // nil: no limit
	check  bool     // see Storage.Unchecked
	log    *slog.Logger
	refuse sync.Once // logs once that direct reads are not possible
}

// newStorage makes the storage of a source. All storages that share the bandwidth share limit.
func newStorage(o Storage, src *source, limit *limiter, log *slog.Logger) *storage {
	s := &storage{src: src, system: o.system, direct: o.Direct, limit: limit, check: !o.Unchecked, log: log}
	if s.system == nil {
		s.system = kernel{}
	}
	return s
}

// Offsets, lengths and addresses of direct reads are multiples of directUnit. It suits every disk.
// A file system that needs more refuses the read, and its files are read normally.
const directUnit = 4096

// file is a sample whose file is open. Direct reads begin at multiples of a unit, so offsets are
// relative to the last multiple before the sample.
type file struct {
	fd        int            // -1: the sample is in a store
	unit      int            // directUnit, or 1 if the file is read normally
	undecided bool           // unit is not determined yet, before the first read
	stays     bool           // the file was found in the page cache, and stays there
	id        Identity       // of the sample, when its file was opened
	whole     Identity       // of the file
	place     *archive.Place // of the sample; nil: the whole file
	at        int64          // the file's offset that offsets are relative to
	skew      int            // offset of the sample, relative to at
	object    store.Object
	ahead     []byte // bytes of the object from aheadAt on
	aheadAt   int64
}

// noFile describes a file that cannot be opened.
var noFile = file{fd: -1, id: unknown, whole: unknown, unit: 1}

// begin moves to a sample within the file.
func (f *file) begin(p *archive.Place) {
	f.place, f.id.Size = p, p.Size
	f.at = p.Offset &^ (directUnit - 1)
	f.skew = int(p.Offset - f.at)
}

// coded says whether the sample has to be unpacked.
func (f *file) coded() bool { return f.place != nil && f.place.Coding != archive.Plain }

// room is the buffer size for reading n bytes from the beginning, f.at.
func (f *file) room(n int) int { return f.floor(n + f.unit - 1) }

// floor is the last offset up to n at which a read may begin.
func (f *file) floor(n int) int { return n &^ (f.unit - 1) }

func (f *file) direct() bool { return f.unit > 1 }

// open opens a path that leads to a regular file. The caller closes the file. On an error, the
// returned file holds at most an identity.
func (s *storage) open(path string) (file, error) {
	fd, err := retry(func() (int, error) { return s.system.open(s.src.dir, path) })
	f := noFile
	if err != nil {
		return f, err
	}
	if f.whole, err = s.stat(fd); err != nil {
		s.system.close(fd)
		f.id = f.whole
		return f, err
	}
	if f.fd, f.id = fd, f.whole; s.direct {
		f.unit, f.undecided = directUnit, true
	}
	return f, nil
}

// decide chooses how to read a file: from the page cache if it has all of the sample, else
// directly.
func (s *storage) decide(f *file) {
	n := f.id.Size
	if f.place != nil {
		n = int64(f.skew) + f.place.Length
	}
	if f.undecided = false; s.system.cached(f.fd, f.at, n) {
		f.unit, f.stays = 1, true
		return
	}
	if err := s.setDirect(f, true); err != nil && !isLack(err) {
		s.refuse.Do(func() {
			s.log.Info("the file system does not read past the page cache; files are dropped from it after each read", "reason", err)
		})
	}
}

// openRow opens the file that holds row i of a table. It fails with ErrChanged if the file is not
// the one that was searched for samples.
func (s *storage) openRow(ctx context.Context, t *table, i int) (file, error) {
	if s.src.remote != nil {
		return s.openObject(ctx, t, i)
	}
	f, err := s.open(s.src.file(t, i))
	place, whole := t.place(i)
	switch {
	case place == nil:
		return f, err
	case err == nil && f.whole != whole:
		s.close(&f)
		err = ErrChanged
	}
	if err != nil {
		return noFile, err
	}
	f.begin(place)
	return f, nil
}

// unchanged returns ErrChanged if a file changed since it was opened. An object is read in one
// version only, so it cannot change.
func (s *storage) unchanged(f *file) error {
	if f.fd < 0 {
		return nil
	}
	now, err := s.stat(f.fd)
	if err == nil && now != f.whole {
		err = ErrChanged
	}
	return err
}

func (s *storage) stat(fd int) (Identity, error) {
	return retry(func() (Identity, error) { return s.system.stat(fd) })
}

// look returns the identity of the regular file that a path leads to.
func (s *storage) look(path string) (Identity, error) {
	return retry(func() (Identity, error) { return s.system.look(s.src.dir, path) })
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
	if f.fd < 0 {
		return
	}
	if !f.stays {
		s.drop(f.fd)
	}
	s.system.close(f.fd)
}

// drop evicts a file from the page cache if direct reads are on. Direct reads leave nothing there,
// but some file systems read some files through the cache anyway, and other programs may have read
// a part of this one.
func (s *storage) drop(fd int) {
	if s.direct {
		s.system.advise(fd, unix.FADV_DONTNEED)
	}
}

// fill reads n bytes at an offset into buf; it returns fewer if the file has shrunk. For a direct
// read, the offset must be a multiple of the file's unit, and fill may overwrite buf beyond the n
// bytes, up to room(n). A buffer unsuitable for direct reads switches f to normal reads. If the
// context ends, fill stops waiting for bandwidth.
func (s *storage) fill(ctx context.Context, f *file, buf []byte, offset int64, n int) (int, error) {
	if f.fd < 0 {
		return s.fetch(ctx, f, buf[:n], f.at+offset)
	}
	if f.undecided {
		s.decide(f)
	}
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
			if err := s.limit.take(ctx, ask); err != nil {
				return got, err
			}
		}
		k, err := s.system.pread(f.fd, buf[got:got+f.room(ask)], f.at+offset+int64(got))
		if err == unix.EINTR {
			continue
		}
		if f.direct() && (err == unix.EINVAL || err == unix.EOPNOTSUPP) {
			k, err = 0, s.setDirect(f, false) // this file has larger blocks, or is on another file system
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
