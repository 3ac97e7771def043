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
	mapping  []byte // capacity bytes, page-aligned
	size     int64  // what was asked for: the size of the file
	charged  int64  // what the budget was asked for
	released atomic.Bool
}

// Bytes is the buffer's memory, exactly as long as was asked for. It is nil for
// a size of 0. What it holds at first is unspecified.
func (b *Buffer) Bytes() []byte { return b.mapping[:b.size:b.size] }

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

// resize makes the buffer size bytes long, with all of its pages allocated. What
// was in it is lost.
func (b *Buffer) resize(size int64) error {
	if b.fd < 0 {
		return b.resizeAnonymous(size)
	}
	if err := unix.Ftruncate(b.fd, size); err != nil {
		return fmt.Errorf("size a batch file to %d bytes: %w", size, noMemory(err))
	}
	if size > b.size {
		if err := allocate(b.fd, b.size, size); err != nil {
			return err
		}
	}
	return b.remap(size)
}

// allocate gives the file its pages from offset from up to size, so that writing
// to a mapping cannot fail.
func allocate(fd int, from, size int64) error {
	for {
		err := unix.Fallocate(fd, 0, from, size-from)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return fmt.Errorf("allocate %d bytes for a batch: %w", size-from, noMemory(err))
		}
		return nil
	}
}

// remap maps the file anew when the mapping is too small. A mapping that is
// larger than the file stays: its tail is not touched.
func (b *Buffer) remap(size int64) error {
	if need := roundUp(size, pageSize); need > int64(len(b.mapping)) {
		mapping, err := unix.Mmap(b.fd, 0, int(need), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_POPULATE)
		if err != nil {
			return fmt.Errorf("map %d bytes for a batch: %w", need, noMemory(err))
		}
		b.unmap()
		b.mapping = mapping
	}
	b.size = size
	return nil
}

func (b *Buffer) resizeAnonymous(size int64) error {
	if need := roundUp(size, pageSize); need > int64(len(b.mapping)) {
		b.unmap() // first: both at once would be memory that nobody was charged for
		mapping, err := unix.Mmap(-1, 0, int(need), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
		if err != nil {
			return fmt.Errorf("map %d bytes for a batch: %w", need, noMemory(err))
		}
		// A hint: kernels without huge pages refuse it, and nothing is lost.
		_ = unix.Madvise(mapping, unix.MADV_HUGEPAGE)
		b.mapping = mapping
	}
	b.size = size
	return nil
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

const pageSize = 4096

func roundUp(n, unit int64) int64 { return (n + unit - 1) / unit * unit }

// noMemory makes ErrNoMemory of the kernel's ways to say so.
func noMemory(err error) error {
	if errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.ENOMEM) {
		return fmt.Errorf("%w (%w)", ErrNoMemory, err)
	}
	return err
}
