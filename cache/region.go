package cache

import (
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A region is reserved address space, off the Go heap, that becomes usable from its beginning as
// needed. Fresh memory is zero. The kernel allocates a page only when it is first touched.
//
// The unusable part does not count as memory, even where the kernel does not overcommit, so
// reserving a cache's whole limit costs nothing.
type region struct {
	mapping []byte
	usable  int
}

// regionStep is how many bytes become usable at a time.
const regionStep = 16 << 20

func reserve(size int64) (region, error) {
	m, err := unix.Mmap(-1, 0, int(roundUp(size, int64(systemPage))), unix.PROT_NONE,
		unix.MAP_PRIVATE|unix.MAP_ANON|unix.MAP_NORESERVE)
	if err != nil {
		return region{}, fmt.Errorf("%w: reserve %d bytes of address space: %w", errNoMemory, size, err)
	}
	// Huge pages would take memory that was not requested or charged. A kernel without huge
	// pages rejects the hint, which is fine.
	_ = unix.Madvise(m, unix.MADV_NOHUGEPAGE)
	return region{mapping: m}, nil
}

// use makes the first n bytes usable.
func (r *region) use(n int64) error {
	if n <= int64(r.usable) {
		return nil
	}
	end := int(min(roundUp(n, regionStep), int64(len(r.mapping))))
	if err := unix.Mprotect(r.mapping[r.usable:end], unix.PROT_READ|unix.PROT_WRITE); err != nil {
		return fmt.Errorf("%w: %w", errNoMemory, err)
	}
	r.usable = end
	return nil
}

// forget returns the memory of size bytes, which are whole pages; they read as zero afterwards.
// This cannot fail for a private mapping that is not locked.
func (r *region) forget(at, size int) {
	_ = unix.Madvise(r.mapping[at:at+size], unix.MADV_DONTNEED)
}

func (r *region) free() {
	if r.mapping != nil {
		// Unmapping a whole mapping of our own cannot fail.
		_ = unix.Munmap(r.mapping)
		*r = region{}
	}
}

// values views a part of a region as an array of n values without pointers.
func values[T any](r region, at, n int64) []T {
	return unsafe.Slice((*T)(unsafe.Pointer(&r.mapping[at])), n)
}

func roundUp(n, unit int64) int64 { return (n + unit - 1) / unit * unit }
