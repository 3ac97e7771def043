package target

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// memory hands out pieces that do not move. Beyond a few chunks of the heap, they are in a mapped,
// unnamed file, so the kernel can write them out when memory is short.
type memory struct {
	dir    string // of the file; "": everything is on the heap
	file   *os.File
	chunks [][]byte
	used   int   // of the last chunk
	mapped int64 // bytes of the file
}

const (
	chunkBytes = 1 << 20
	heapChunks = 16
)

// place says where a piece is: the number of its chunk, from 1, and the byte in it.
type place uint64

const (
	nowhere    place = 0
	placeBytes       = 8
	chunkAt          = 32 // shift of the chunk's number
)

// take returns n more zero bytes.
func (m *memory) take(n int) (piece []byte, at place, err error) {
	if last := len(m.chunks) - 1; last < 0 || len(m.chunks[last])-m.used < n {
		chunk, err := m.chunk(max(n, chunkBytes))
		if err != nil {
			return nil, nowhere, err
		}
		m.chunks, m.used = append(m.chunks, chunk), 0
	}
	at = place(len(m.chunks)<<chunkAt | m.used)
	m.used += n
	return m.at(at)[:n:n], at, nil
}

// at returns a piece, and the rest of its chunk.
func (m *memory) at(p place) []byte { return m.chunks[p>>chunkAt-1][uint32(p):] }

func (m *memory) chunk(n int) (p []byte, err error) {
	if m.dir == "" || len(m.chunks) < heapChunks && n == chunkBytes {
		return make([]byte, n), nil
	}
	return m.inFile(n)
}

// inFile returns at least n more bytes of the file.
func (m *memory) inFile(n int) (p []byte, err error) {
	if m.file == nil {
		if m.file, err = os.CreateTemp(m.dir, ".targets-*"); err != nil {
			return nil, fmt.Errorf("room for annotations: %w", err)
		}
		if err := os.Remove(m.file.Name()); err != nil {
			return nil, fmt.Errorf("room for annotations: %w", err)
		}
	}
	n = (n + chunkBytes - 1) &^ (chunkBytes - 1) // so that offsets are multiples of the page size
	// Allocate the blocks now: otherwise, a disk that fills up later would end the process.
	if err = unix.Fallocate(int(m.file.Fd()), 0, m.mapped, int64(n)); err == nil {
		p, err = unix.Mmap(int(m.file.Fd()), m.mapped, n, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	}
	if err != nil {
		return nil, fmt.Errorf("room for annotations: %w", err)
	}
	m.mapped += int64(n)
	return p, nil
}

// heap is how many bytes are not in the file.
func (m *memory) heap() (n int64) {
	for _, c := range m.chunks {
		n += int64(len(c))
	}
	return n - m.mapped
}

func (m *memory) close() error {
	if m.file == nil {
		return nil
	}
	for left := m.mapped; left > 0; m.chunks = m.chunks[:len(m.chunks)-1] {
		if c := m.chunks[len(m.chunks)-1]; cap(c) == len(c) && left >= int64(len(c)) {
			if unix.Munmap(c) == nil {
				left -= int64(len(c))
			}
		}
	}
	return m.file.Close()
}
