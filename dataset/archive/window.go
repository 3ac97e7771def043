package archive

import (
	"context"
	"errors"
	"fmt"
	"io"
)

// A window reads an archive in blocks, so that neighbouring reads become one. What lies between two reads
// that are far apart is not read.
type window struct {
	ctx      context.Context
	r        io.ReaderAt
	size     int64
	block    int
	progress func(done, total int64)

	buf []byte
	at  int64 // where buf begins
	err error // of ctx or r, rather than of what was read
}

// bytes returns n bytes, which are valid until the next call. They are in memory all at once, so the caller
// bounds n.
func (w *window) bytes(off int64, n int) ([]byte, error) {
	if off < 0 || n < 0 || off > w.size-int64(n) {
		return nil, io.ErrUnexpectedEOF
	}
	if off < w.at || off+int64(n) > w.at+int64(len(w.buf)) {
		if err := w.fill(off, n); err != nil {
			return nil, err
		}
	}
	return w.buf[off-w.at:][:n:n], nil
}

func (w *window) fill(off int64, n int) error {
	if w.err = w.ctx.Err(); w.err != nil {
		return w.err
	}
	if w.progress != nil {
		w.progress(off, w.size)
	}
	n = int(min(max(int64(n), int64(w.block)), w.size-off))
	if n > cap(w.buf) {
		w.buf = make([]byte, n)
	}
	w.buf, w.at = w.buf[:n], off
	if got, err := w.r.ReadAt(w.buf, off); got < n {
		if err == nil || errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		w.buf, w.err = nil, fmt.Errorf("reading %d bytes at %d: %w", n, off, err)
	}
	return w.err
}

// ReadAt is for libraries that read by themselves.
func (w *window) ReadAt(p []byte, off int64) (int, error) {
	if off < 0 || off >= w.size {
		return 0, io.EOF
	}
	n := int(min(int64(len(p)), w.size-off))
	b, err := w.bytes(off, n)
	if err == nil && n < len(p) {
		err = io.EOF
	}
	return copy(p, b), err
}
