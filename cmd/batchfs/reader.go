package main

import (
	"fmt"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// batchReader reads whole files, mapped or into one reused buffer. It calls the kernel
// directly, so that Go's file handling is not measured.
type batchReader struct {
	mapped bool
	buffer []byte // mapped memory: aligned, and off the heap
}

func (b *batchReader) close() {
	if b.buffer != nil {
		_ = unix.Munmap(b.buffer)
	}
}

// read reads every byte of a file.
func (b *batchReader) read(path string) (size int64, sum uint64, err error) {
	fd, err := openUninterrupted(path)
	if err != nil {
		return 0, 0, &os.PathError{Op: "open", Path: path, Err: err}
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return 0, 0, &os.PathError{Op: "stat", Path: path, Err: err}
	}
	if st.Size == 0 { // a partial batch may be empty
		return 0, 0, nil
	}
	look := b.look
	if b.mapped {
		look = lookMapped
	}
	if sum, err = look(fd, st.Size); err != nil {
		return 0, 0, &os.PathError{Op: "read", Path: path, Err: err}
	}
	return st.Size, sum, nil
}

// openUninterrupted retries an open interrupted by one of the Go runtime's signals.
func openUninterrupted(path string) (int, error) {
	for {
		fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if err != unix.EINTR {
			return fd, err
		}
	}
}

func lookMapped(fd int, size int64) (uint64, error) {
	data, err := unix.Mmap(fd, 0, int(size), unix.PROT_READ, unix.MAP_SHARED)
	if err == unix.ENODEV { // older kernels map direct I/O files only privately
		data, err = unix.Mmap(fd, 0, int(size), unix.PROT_READ, unix.MAP_PRIVATE)
	}
	if err != nil {
		return 0, err
	}
	sum := sumWords(data)
	return sum, unix.Munmap(data)
}

// readChunk is the size of one read: large enough that the number of calls does not matter.
const readChunk = 16 << 20

func (b *batchReader) look(fd int, size int64) (sum uint64, err error) {
	if int64(len(b.buffer)) < size {
		b.close()
		if b.buffer, err = unix.Mmap(-1, 0, int(size), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON); err != nil {
			return 0, err
		}
	}
	data := b.buffer[:size]
	for have := 0; have < len(data); {
		n, err := unix.Read(fd, data[have:min(have+readChunk, len(data))])
		switch {
		case err == unix.EINTR:
		case err != nil:
			return 0, err
		case n == 0:
			return 0, fmt.Errorf("ends after %d of %d bytes", have, len(data))
		}
		have += max(n, 0)
	}
	return sumWords(data), nil
}

// sumWords adds up page-aligned memory, 8 words at a time, which is as fast as one core
// reads memory.
func sumWords(data []byte) uint64 {
	words := unsafe.Slice((*uint64)(unsafe.Pointer(unsafe.SliceData(data))), len(data)/8)
	var a, b, c, d uint64
	for len(words) >= 8 {
		w := words[:8]
		a += w[0] + w[4]
		b += w[1] + w[5]
		c += w[2] + w[6]
		d += w[3] + w[7]
		words = words[8:]
	}
	for _, w := range words {
		a += w
	}
	for _, tail := range data[len(data)&^7:] {
		a += uint64(tail)
	}
	return a + b + c + d
}
