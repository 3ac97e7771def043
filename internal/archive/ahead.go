package archive

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// A Span is a range of an archive's bytes.
type Span struct{ From, To int64 }

const (
	maxHeaders   = 64 << 10 // bytes of headers between two files of a tar
	spansAtOnce  = 64
	missesAtOnce = 8 // with more misses than this, and than hits, the spans belong to another archive
	missBlock    = 64 << 10

	// Spans of an archive that is read from front to back overlap by this much, so that headers,
	// and most labels, lie completely in one of them.
	overlap = 4 << 10
)

// ReadDALI reads the index that DALI's wds2idx makes of a tar of size bytes. The spans are what
// [Scan] will read of the tar: headers, and the first head bytes of files. Spans at most near bytes
// apart are joined, up to most bytes. They only suggest what to read ahead, so they need not be
// right.
func ReadDALI(r io.Reader, size, head, near, most int64) (spans []Span, err error) {
	in := bufio.NewScanner(r)
	in.Buffer(nil, 1<<20)
	in.Scan()
	version, _, _ := strings.Cut(in.Text(), " ")
	fields := map[string]int{"v1.1": 3, "v1.2": 4}[version] // of a file: extension, offset, length, name
	if fields == 0 {
		return nil, fmt.Errorf("its version is %.20q, rather than v1.1 or v1.2", version)
	}
	end := int64(0) // of the previous file
	add := func(from, to int64) {
		if k := len(spans) - 1; k >= 0 && from-spans[k].To <= near && to-spans[k].From <= most {
			spans[k].To = to
			return
		}
		spans = append(spans, Span{from, to})
	}
	for in.Scan() {
		words := strings.Fields(in.Text())
		for ; len(words) >= fields; words = words[fields:] {
			at, wrong := strconv.ParseInt(words[1], 10, 64)
			n, wrong2 := strconv.ParseInt(words[2], 10, 64)
			if wrong != nil || wrong2 != nil || at < end || n < 0 || n > size || at > size-n {
				return nil, fmt.Errorf("a file of %s bytes, at %s, is not after the one before, or not in the tar", words[2], words[1])
			}
			add(max(0, end-1, at-maxHeaders), at+min(n, head)) // package tar also reads the last byte of the previous file
			end = at + n
		}
		if len(words) > 0 {
			return nil, errors.New("a line ends within a file")
		}
	}
	add(max(0, end-1), min(size, end+maxHeaders))
	return spans, in.Err()
}

// An ahead reads spans of an archive before they are needed, several at a time. Reads outside of
// them only cost more.
type ahead struct {
	r      io.ReaderAt
	spans  []Span     // not begun yet
	rest   Span       // the archive after the spans, read in steps
	step   int64      // bytes
	reads  []*reading // in progress or done, in order
	room   int64      // bytes that may still be read ahead
	held   int64      // room before anything was read
	unfit  func()     // see Options; may be nil
	all    sync.WaitGroup
	hits   int
	misses int
}

type reading struct {
	Span
	buf  []byte
	err  error
	done chan struct{}
}

// get returns the read of a span that contains n bytes at an offset, nil if there is none.
func (a *ahead) get(off int64, n int) *reading {
	var idle [][]byte // buffers of the window, and of spans passed over
	for len(a.reads) > 0 && (a.reads[0].To <= off || len(a.reads) > 1 && a.reads[0].To < off+int64(n) && a.reads[1].From <= off) {
		r := a.reads[0]
		<-r.done // wait, so that memory stays within room
		a.reads, a.room = a.reads[1:], a.room+r.To-r.From
		idle = append(idle, r.buf)
	}
	for a.more(off) && len(a.reads) < spansAtOnce {
		s := a.spans[0]
		if len(a.reads) > 0 && s.To-s.From > a.room {
			break
		}
		a.spans, a.room = a.spans[1:], a.room-(s.To-s.From)
		r := &reading{Span: s, done: make(chan struct{})}
		if k := len(idle) - 1; k >= 0 {
			r.buf, idle = idle[k], idle[:k]
		}
		a.reads = append(a.reads, r)
		a.all.Go(func() {
			defer close(r.done)
			r.buf = slices.Grow(r.buf[:0], int(s.To-s.From))[:s.To-s.From]
			if n, err := a.r.ReadAt(r.buf, s.From); n < len(r.buf) {
				r.err = cmp.Or(err, io.ErrUnexpectedEOF)
			}
		})
	}
	if len(a.reads) > 0 && a.reads[0].From <= off && off+int64(n) <= a.reads[0].To {
		r := a.reads[0]
		if <-r.done; r.err == nil {
			a.hits++
			return r
		} // the window will meet the error itself
	}
	a.misses++
	return nil
}

// more reports whether there are spans after an offset.
func (a *ahead) more(off int64) bool {
	for len(a.spans) > 0 && a.spans[0].To <= off {
		a.spans = a.spans[1:]
	}
	if from := max(a.rest.From, off); len(a.spans) == 0 && from < a.rest.To {
		to := min(from+a.step, a.rest.To)
		a.spans = append(a.spans, Span{from, to})
		if a.rest.From = to; to < a.rest.To {
			a.rest.From -= overlap
		}
	}
	return len(a.spans) > 0
}

// wrong says whether the spans are useless.
func (a *ahead) wrong() bool { return a.misses > missesAtOnce && a.misses > a.hits }
