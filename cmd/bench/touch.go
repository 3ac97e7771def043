package main

import (
	"fmt"
	"io"
	"os"
	"syscall"
	"unsafe"
)

// sink keeps the compiler from removing reads.
var sink uint64

// touch reads every byte of p.
func touch(p []byte) {
	words := unsafe.Slice((*uint64)(unsafe.Pointer(unsafe.SliceData(p))), len(p)/8)
	var a, b, c, d uint64
	for ; len(words) >= 4; words = words[4:] {
		a, b, c, d = a^words[0], b^words[1], c^words[2], d^words[3]
	}
	for _, w := range words {
		a ^= w
	}
	for _, x := range p[len(p)&^7:] {
		a ^= uint64(x)
	}
	sink += a ^ b ^ c ^ d
}

// A reader reads a whole open file in one way or another.
type reader func(f *os.File) (bytes int64, err error)

// path opens a file, reads it and closes it.
func (read reader) path(path string) (int64, error) {
	f, err := os.Open(path)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	return read(f)
}

// mapped maps the file and touches every byte in place.
func mapped(f *os.File) (int64, error) {
	st, err := f.Stat()
	if err != nil {
		return 0, err
	}
	p, err := syscall.Mmap(int(f.Fd()), 0, int(st.Size()), syscall.PROT_READ, syscall.MAP_SHARED)
	if err != nil {
		return 0, fmt.Errorf("map %s: %w", f.Name(), err)
	}
	touch(p)
	return st.Size(), syscall.Munmap(p)
}

// reading returns a reader that reads into one reused buffer, of the file's size or, if
// chunk is not 0, of chunk bytes. It touches every byte if look is set.
func reading(chunk int64, look bool) reader {
	var buf []byte
	return func(f *os.File) (int64, error) {
		st, err := f.Stat()
		if err != nil {
			return 0, err
		}
		size := chunk
		if size == 0 {
			size = st.Size()
		}
		if int64(len(buf)) < size {
			buf = make([]byte, size)
			touchPages(buf)
		}
		var total int64
		for total < st.Size() {
			// Use one system call: os.File would split a large read.
			n, err := syscall.Pread(int(f.Fd()), buf[:size], total)
			if err != nil {
				return total, err
			}
			if n == 0 {
				return total, io.ErrUnexpectedEOF
			}
			if total += int64(n); look {
				touch(buf[:n])
			}
		}
		return total, nil
	}
}

func touchPages(p []byte) {
	for i := 0; i < len(p); i += 4096 {
		p[i] = 1
	}
}
