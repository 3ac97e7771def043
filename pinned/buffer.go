package pinned

import (
	"errors"
	"fmt"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// A Buffer is the memory of one batch. Whoever got it from a Pool owns it until
// Release; its bytes may be written only before they are shown to a reader.
type Buffer struct {
	pool     *Pool
	fd       int    // -1 for anonymous memory
	bytes    []byte // the owner's view of the mapping
	size     int64  // what was asked for: the size of the file
	released atomic.Bool

	// Guarded by Pool.mu while the buffer is owned or released.
	mapping []byte // whole pages, at least as many as size takes
	held    int64  // bytes of memory behind it, in whole pages; beyond size they are spare
	locked  bool   // the mapping is page-locked
}

// Bytes is the buffer's memory, exactly as long as was asked for. It is nil for
// a size of 0. What it holds at first is unspecified.
func (b *Buffer) Bytes() []byte { return b.bytes }

// Fd is the descriptor of the file that holds the bytes, from offset 0, and ends
// where they end; -1 where the buffer has none. It is the buffer's: do not close it.
func (b *Buffer) Fd() int { return b.fd }

// Release gives the buffer back. Nobody but readers whom the kernel serves may
// look at it afterwards. Releasing twice panics: the memory might be another
// batch's by then.
func (b *Buffer) Release() {
	if b.released.Swap(true) {
		panic("pinned: buffer released twice")
	}
	b.pool.put(b)
}

// resize makes the buffer size bytes long, with held bytes of memory behind it. It
// returns how many there are now: spare memory that cannot be had is no error.
func (b *Buffer) resize(size, held int64) (int64, error) {
	var err error
	if b.fd < 0 {
		err = b.remapAnonymous(held)
	} else if held, err = b.resizeFile(size, held); err == nil {
		err = b.remapFile(size, held)
	}
	if err != nil {
		return 0, err
	}
	b.size, b.bytes = size, nil
	if size > 0 {
		b.bytes = b.mapping[:size:size]
	}
	return held, nil
}

// resizeFile sets where the file ends, and allocates its pages up to held, also
// those past its end.
func (b *Buffer) resizeFile(size, held int64) (int64, error) {
	from := b.held // up to there it has its pages
	if size < b.size {
		from = size
	}
	if size != b.size { // a nearer end frees all pages past it
		if err := unix.Ftruncate(b.fd, size); err != nil {
			return 0, fmt.Errorf("size a batch file to %d bytes: %w", size, noMemory(err))
		}
	}
	need := roundUp(size, pageSize)
	err := allocate(b.fd, from, held)
	if err != nil && held > need {
		held = need
		err = allocate(b.fd, from, need)
	}
	return held, err
}

// allocate gives the file its pages between two offsets, so that writing to a
// mapping cannot fail. Where the file ends does not change.
func allocate(fd int, from, to int64) error {
	for to > from {
		err := unix.Fallocate(fd, unix.FALLOC_FL_KEEP_SIZE, from, to-from)
		if err == nil {
			break
		}
		if !errors.Is(err, unix.EINTR) {
			return fmt.Errorf("allocate %d bytes for a batch: %w", to-from, noMemory(err))
		}
	}
	return nil
}

// remapFile maps the file anew when the mapping is too small. A mapping that is
// larger than the file stays: its tail is not touched.
func (b *Buffer) remapFile(size, held int64) error {
	if roundUp(size, pageSize) <= int64(len(b.mapping)) {
		return nil
	}
	m, err := unix.Mmap(b.fd, 0, int(held), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return fmt.Errorf("map %d bytes for a batch: %w", held, noMemory(err))
	}
	b.unmap()
	b.mapping, b.locked = m, b.pool.lock(m)
	// A hint: without it (Linux before 5.14) pages are mapped as they are touched.
	_ = unix.Madvise(m[:size], unix.MADV_POPULATE_WRITE)
	return nil
}

// remapAnonymous makes ordinary memory as large as it shall be.
func (b *Buffer) remapAnonymous(held int64) error {
	if held == int64(len(b.mapping)) {
		return nil
	}
	b.unmap() // first: both at once would be memory that nobody was charged for
	m, err := unix.Mmap(-1, 0, int(held), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		return fmt.Errorf("map %d bytes for a batch: %w", held, noMemory(err))
	}
	// A hint: kernels without huge pages refuse it, and nothing is lost.
	_ = unix.Madvise(m, unix.MADV_HUGEPAGE)
	b.mapping, b.locked = m, b.pool.lock(m)
	return nil
}

// cut frees the spare memory and returns how many bytes it was. Pool.mu is held;
// the bytes in use stay where they are, whoever looks at them.
func (b *Buffer) cut() int64 {
	need := roundUp(b.size, pageSize)
	spare := b.held - need
	if spare <= 0 || !b.free(need, spare) {
		return 0
	}
	b.held = need
	return spare
}

func (b *Buffer) free(from, n int64) bool {
	if b.fd >= 0 {
		return unix.Fallocate(b.fd, unix.FALLOC_FL_KEEP_SIZE|unix.FALLOC_FL_PUNCH_HOLE, from, n) == nil
	}
	if from == 0 {
		b.unmap()
		return true
	}
	m, err := unix.Mremap(b.mapping, int(from), 0)
	if err == nil {
		b.mapping = m
	}
	return err == nil
}

// idle asks the kernel whether the daemon is the only one who can see the bytes.
func (b *Buffer) idle() bool {
	if b.fd < 0 {
		return true
	}
	if _, err := unix.FcntlInt(uintptr(b.fd), unix.F_SETLEASE, unix.F_WRLCK); err != nil {
		return false
	}
	// The answer is all that was wanted: nobody can open the file from here on.
	_, err := unix.FcntlInt(uintptr(b.fd), unix.F_SETLEASE, unix.F_UNLCK)
	return err == nil
}

func (b *Buffer) unmap() {
	if b.mapping != nil {
		// Unmapping a whole mapping of our own cannot fail.
		_ = unix.Munmap(b.mapping)
		b.mapping = nil
	}
}

func (b *Buffer) destroy() {
	b.unmap()
	if b.fd >= 0 {
		unix.Close(b.fd)
		b.fd = -1
	}
}

// pageSize is a variable: arm64 has kernels with pages of 64 KiB.
var pageSize = int64(unix.Getpagesize())
