package archive

import (
	"context"
	"errors"
	"fmt"
	"io"
)

// A window reads an archive in blocks, so that neighbouring reads become one. Gaps between distant
// reads are skipped.
type window struct {
	ctx   context.Context
	r     io.ReaderAt
	size  int64
	block int

	memory func(n int64) error // see Options; nil: not counted
	buf    []byte
	at     int64  // offset of buf
	own    []byte // memory of buf, unless it was read ahead
	ahead  *ahead // nil: nothing is read ahead
	room   int64  // see Options
	steps  int    // consecutive reads that each continued where the last ended
	err    error  // from ctx, r or memory, not about the data
}

// bytes returns n bytes, which are valid until the next call. They are in memory together, so the
// caller limits n.
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
	if w.err == nil {
		w.err = w.ctx.Err()
	}
	if w.err != nil { // fail again, in case a library went on
		return w.err
	}
	block := w.block
	if w.ahead == nil && w.goesOn(off) {
		w.begin(&ahead{rest: Span{off, w.size}, step: int64(block), room: w.room})
	}
	if w.ahead != nil {
		if r := w.ahead.get(off, n); r != nil {
			w.buf, w.at = r.buf, r.From
			return nil
		}
		if block = missBlock; w.ahead.wrong() {
			w.endAhead()
		}
	}
	n = int(min(max(int64(n), int64(block)), w.size-off))
	if n > cap(w.own) {
		if err := w.take(int64(n - cap(w.own))); err != nil {
			return err
		}
		w.own = make([]byte, n)
	}
	w.buf, w.at = w.own[:n], off
	if got, err := w.r.ReadAt(w.buf, off); got < n {
		if err == nil || errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		w.buf, w.err = nil, fmt.Errorf("reading %d bytes at %d: %w", n, off, err)
	}
	return w.err
}

// readAhead begins to read spans. They take the memory of one block.
func (w *window) readAhead(spans []Span, unfit func()) {
	if len(spans) > 0 {
		w.begin(&ahead{spans: spans, room: int64(w.block), unfit: unfit})
	}
}

// goesOn reports whether reading ahead from an offset is worthwhile, because several reads in a row
// continued about where the last ended. It is called once for each read.
func (w *window) goesOn(off int64) bool {
	const several = 3
	if w.steps++; off < w.at || off > w.at+int64(len(w.buf)+w.block/2) {
		w.steps = 0
	}
	return w.steps >= several && w.room >= 2*int64(w.block) && w.block > 2*overlap
}

func (w *window) begin(a *ahead) {
	if a.r = w.r; w.take(a.room) == nil {
		a.held, w.ahead = a.room, a
	}
}

// endAhead stops reading ahead, since other bytes are needed.
func (w *window) endAhead() {
	a := w.ahead
	a.all.Wait()
	w.ahead, w.buf, w.steps = nil, nil, 0
	_ = w.take(-a.held)
	if a.unfit != nil {
		a.unfit()
	}
}

// close ends reads in progress.
func (w *window) close() {
	if w.ahead != nil {
		w.ahead.all.Wait()
	}
}

// take counts n bytes before they are allocated; a negative n, after they were freed.
func (w *window) take(n int64) error {
	if w.memory != nil && w.err == nil {
		w.err = w.memory(n)
	}
	return w.err
}

// ReadAt serves libraries that read by themselves.
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

// kept serves libraries that retain what they read, in times as much memory.
type kept struct {
	*window
	times int64
}

// ReadAt is that of [io.ReaderAt].
func (k *kept) ReadAt(p []byte, off int64) (int, error) {
	if err := k.take(k.times * int64(len(p))); err != nil {
		return 0, err
	}
	return k.window.ReadAt(p, off)
}
