// Package throughput is what `batchfs bench` and `make bench` measure with: it reads whole
// files and mounts the way training programs do, touching every byte, and sums up repeated figures.
package throughput

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// A Reader reads every byte of an open file and returns how many there are.
type Reader func(f *os.File) (bytes int64, err error)

// path opens a file, reads it and closes it.
func (read Reader) path(path string) (int64, error) {
	f, err := os.Open(path)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	return read(f)
}

// Speed reads a file a number of times and returns bytes per second.
func (read Reader) Speed(ctx context.Context, f *os.File, times int) (float64, error) {
	began, total := time.Now(), int64(0)
	for range times {
		n, err := read(f)
		if err = cmp.Or(err, ctx.Err()); err != nil {
			return 0, err
		}
		total += n
	}
	return float64(total) / time.Since(began).Seconds(), nil
}

// Mapped maps the file and touches every byte in place.
func Mapped(f *os.File) (int64, error) {
	st, err := f.Stat()
	if err != nil || st.Size() == 0 { // a partial batch may be empty
		return 0, err
	}
	p, err := unix.Mmap(int(f.Fd()), 0, int(st.Size()), unix.PROT_READ, unix.MAP_SHARED)
	if err == unix.ENODEV { // older kernels map direct I/O files only privately
		p, err = unix.Mmap(int(f.Fd()), 0, int(st.Size()), unix.PROT_READ, unix.MAP_PRIVATE)
	}
	if err != nil {
		return 0, fmt.Errorf("map %s: %w", f.Name(), err)
	}
	touchBytes(p)
	return st.Size(), unix.Munmap(p)
}

// Reading returns a Reader that reads into one reused buffer. It touches every byte if asked to.
func Reading(touch bool) Reader {
	var buf []byte
	return func(f *os.File) (int64, error) {
		st, err := f.Stat()
		if err != nil {
			return 0, err
		}
		if int64(len(buf)) < st.Size() {
			buf = make([]byte, st.Size())
			clear(buf) // the first reading does not pay for page faults
		}
		n, err := f.ReadAt(buf[:st.Size()], 0) // one system call
		if err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		if touch {
			touchBytes(buf[:n])
		}
		return int64(n), err
	}
}

// found keeps the compiler from removing reads.
var found atomic.Int64

// touchBytes reads every byte of p as fast as one core reads memory.
func touchBytes(p []byte) { found.Add(int64(bytes.Count(p, []byte{1}))) }
