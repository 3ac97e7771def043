package dataset

import (
	"errors"
	"fmt"
	"log/slog"
	"math/bits"
	"sync"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Storage says how the files of a dataset are read. The zero value reads them as
// any program does.
type Storage struct {
	// Direct keeps the dataset out of the page cache: files are read past it
	// (O_DIRECT), or, where a file system refuses that, through it, and what is in it
	// of a file that was read is dropped, whoever brought it there.
	Direct bool
	// MaxBandwidth is how many bytes a second may be asked from the files, over all
	// reads, header scans included; 0: any number.
	MaxBandwidth int64

	system system // nil: the kernel
}

func (s *Storage) validate() error {
	if s.MaxBandwidth < 0 {
		return fmt.Errorf("max read bandwidth must be at least 0 bytes a second, not %d", s.MaxBandwidth)
	}
	return nil
}

// storage reads files the way a Storage says.
type storage struct {
	system  system
	direct  bool
	limit   *limiter // nil: none
	log     *slog.Logger
	mu      sync.Mutex // held while a device becomes known
	devices atomic.Pointer[[]device]
}

// device is a file system, and how files on it are read directly.
type device struct {
	number uint64
	unit   int // as in file
}

func newStorage(o Storage, log *slog.Logger) *storage {
	s := &storage{system: o.system, direct: o.Direct, log: log}
	if s.system == nil {
		s.system = kernel{}
	}
	if o.MaxBandwidth > 0 {
		s.limit = newLimiter(o.MaxBandwidth)
	}
	s.devices.Store(&[]device{})
	return s
}

// file is an open regular file.
type file struct {
	fd int
	id Identity // when it was opened
	// unit is what offsets, lengths and addresses of direct reads are multiples of,
	// a power of two; 0: the file is read in the ordinary way.
	unit int
}

// room is the memory that n bytes from the beginning of the file are read into.
func (f *file) room(n int) int {
	if f.unit == 0 {
		return n
	}
	return (n + f.unit - 1) &^ (f.unit - 1)
}

// open opens a NUL-terminated path, if it leads to a regular file. The caller
// closes the file. After an error only the file's identity may be known.
func (s *storage) open(dir int, path *byte) (file, error) {
	fd, err := s.system.open(dir, path)
	for err == unix.EINTR {
		fd, err = s.system.open(dir, path)
	}
	if err != nil {
		return file{fd: -1, id: unknown}, err
	}
	id, dev, err := s.stat(fd)
	if err != nil {
		s.system.close(fd)
		return file{fd: -1, id: id}, err
	}
	f := file{fd: fd, id: id}
	if s.direct {
		s.goDirect(&f, dev)
	}
	return f, nil
}

func (s *storage) stat(fd int) (id Identity, dev uint64, err error) {
	for {
		if id, dev, err = s.system.stat(fd); err != unix.EINTR {
			return id, dev, err
		}
	}
}

// look is the identity of the regular file that a path leads to.
func (s *storage) look(dir int, path string) (id Identity, err error) {
	for {
		if id, err = s.system.look(dir, path); err != unix.EINTR {
			return id, err
		}
	}
}

// setDirect turns direct reads on or off.
func (s *storage) setDirect(fd int, on bool) error {
	for {
		if err := s.system.direct(fd, on); err != unix.EINTR {
			return err
		}
	}
}

func (s *storage) close(f *file) {
	s.drop(f.fd)
	s.system.close(f.fd)
}

// drop empties the page cache of a file, unless files are read as usual. Direct
// reads leave nothing there, but some file systems read some files through it all
// the same, and others may have read this one.
func (s *storage) drop(fd int) {
	if s.direct {
		s.system.advise(fd, unix.FADV_DONTNEED)
	}
}

// goDirect makes f one that is read directly, if it can be.
func (s *storage) goDirect(f *file, dev uint64) {
	unit, known := s.lookUp(dev)
	if !known {
		unit = s.learn(f.fd, dev)
	}
	if unit > 0 && s.setDirect(f.fd, true) == nil {
		f.unit = unit
	}
}

// goOrdinary makes f one that is read in the ordinary way.
func (s *storage) goOrdinary(f *file) error {
	f.unit = 0
	return s.setDirect(f.fd, false)
}

func (s *storage) lookUp(dev uint64) (unit int, known bool) {
	for _, d := range *s.devices.Load() {
		if d.number == dev {
			return d.unit, true
		}
	}
	return 0, false
}

// learn finds out how a device's files are read directly, from one of them.
func (s *storage) learn(fd int, dev uint64) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if unit, known := s.lookUp(dev); known {
		return unit
	}
	unit, err := s.unit(fd)
	if isLack(err) {
		return 0 // this file is read in the ordinary way, and the next one tells
	}
	if err != nil {
		unit = 0
		s.log.Info("the file system does not read past the page cache; files are dropped from it when they were read",
			"device", fmt.Sprintf("%d:%d", unix.Major(dev), unix.Minor(dev)), "reason", err)
	}
	devices := append([]device{}, *s.devices.Load()...)
	devices = append(devices, device{dev, unit})
	s.devices.Store(&devices)
	return unit
}

const (
	minUnit = 4096    // suits every disk, and is what buffers are aligned to anyway
	maxUnit = 1 << 20 // what asks for more is better read in the ordinary way
)

var errNoDirect = errors.New("it says so")

func (s *storage) unit(fd int) (int, error) {
	align, known := s.system.alignment(fd)
	switch {
	case !known:
		align = minUnit // older kernels and network file systems do not say
	case align == 0:
		return 0, errNoDirect
	case align > maxUnit:
		return 0, fmt.Errorf("it wants reads of %d bytes", align)
	}
	if err := s.setDirect(fd, true); err != nil {
		return 0, err
	}
	return max(minUnit, 1<<bits.Len(uint(align-1))), nil
}

// fill reads n bytes at an offset into buf, or fewer where the file ends. Where f
// is read directly the offset is a multiple of its unit, and what lies in buf beyond
// the n bytes, up to room(n), may be overwritten. Memory that does not suit direct
// reads makes f an ordinary file. Closing stop ends a wait for bandwidth.
func (s *storage) fill(f *file, buf []byte, offset int64, n int, stop <-chan struct{}) (int, error) {
	if f.unit > 0 && (cap(buf) < f.room(n) || !aligned(buf, f.unit)) {
		if err := s.goOrdinary(f); err != nil {
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
		if f.unit > 0 && (err == unix.EINVAL || err == unix.EOPNOTSUPP) {
			k, err = 0, s.goOrdinary(f) // this one file's blocks are larger, or elsewhere
		} else if k == 0 {
			return got, err
		}
		if err != nil {
			return got, err
		}
		got = min(got+k, n)
		if f.unit > 0 && got%f.unit != 0 && got < n { // the file ends, or its system answers by halves
			if err := s.goOrdinary(f); err != nil {
				return got, err
			}
		}
	}
	return got, nil
}

func aligned(buf []byte, unit int) bool {
	return uintptr(unsafe.Pointer(unsafe.SliceData(buf)))&uintptr(unit-1) == 0
}
