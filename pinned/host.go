package pinned

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// A Host is an ordinary host buffer off the Go heap, for what is needed while a
// sample is decoded: encoded bytes, scratch. The zero value is empty. It belongs
// to one goroutine.
type Host struct{ mapping []byte }

// Grow returns n bytes with unspecified contents, valid until the next Grow or
// Free. What was in the buffer is lost when it has to grow.
func (h *Host) Grow(n int) ([]byte, error) {
	if n > len(h.mapping) {
		h.Free()
		need := int(HostBytes(n))
		m, err := unix.Mmap(-1, 0, need, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
		if err != nil {
			return nil, fmt.Errorf("map %d bytes: %w", need, noMemory(err))
		}
		h.mapping = m
	}
	return h.mapping[:n:n], nil
}

// hostUnit keeps a buffer from being mapped anew for every slightly larger sample.
const hostUnit = 64 << 10

// HostBytes is how much memory a buffer takes that had to grow to n bytes.
func HostBytes(n int) int64 { return roundUp(int64(n), hostUnit) }

// Bytes is how much memory the buffer takes.
func (h *Host) Bytes() int64 { return int64(len(h.mapping)) }

// Free gives the memory back; the buffer is empty afterwards.
func (h *Host) Free() {
	if h.mapping != nil {
		// Unmapping a whole mapping of our own cannot fail.
		_ = unix.Munmap(h.mapping)
		h.mapping = nil
	}
}
