package dataset

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/batchfs/batchfs/internal/archive"
	"github.com/batchfs/batchfs/internal/fault"
	"github.com/batchfs/batchfs/internal/parallel"
)

// scanner reads the headers of given rows of a table.
type scanner struct {
	*opening
	table   *table
	claims  []claim // by row
	mu      sync.Mutex
	read    []int        // rows to add to the journal: their header was read
	scanned atomic.Int64 // rows whose header was read
	done    atomic.Int64 // rows
}

// savedRows is how many rows are scanned before the journal is saved, if an interruption would cost
// many requests. A variable for tests.
var savedRows = 64 << 10

// scan reads the headers of rows whose claims do not hold. Nothing may read the rows meanwhile.
func (p *opening) scan(x *index, claims []claim, rows []int) error {
	if len(rows) == 0 {
		return nil
	}
	s := &scanner{opening: p, table: x.table, claims: claims}
	for _, row := range rows {
		delete(x.table.bad, uint32(row))
	}
	var progress func(done, total int64)
	if p.Progress != nil {
		progress = func(int64, int64) { p.Progress(s.done.Load(), int64(len(rows))) }
	}
	spans, err := s.spans(rows), error(nil)
	for len(spans) > 0 && err == nil {
		n := firstRows(spans, max(savedRows, len(rows)/16))
		err = parallel.Each(p.ctx, p.requests(), n, progress, func(ctx context.Context, items iter.Seq[int]) error {
			w := &scanWorker{scanner: s, ctx: ctx, memory: p.memory.holding(ctx)}
			for i := range items {
				if err := w.span(spans[i]); err != nil {
					return cmp.Or(ctx.Err(), err)
				}
			}
			return nil
		})
		if spans = spans[n:]; len(spans) > 0 && err == nil && len(s.read) > 0 {
			p.journal.headers(x, s.read)
		}
		s.read = s.read[:0]
	}
	read := int(s.scanned.Load())
	p.report.Scanned += read
	p.report.Reused += len(rows) - read
	return err
}

// firstRows is how many of the first spans have at least n rows together.
func firstRows(spans [][]int, n int) int {
	for k, span := range spans {
		if n -= len(span); n <= 0 {
			return k + 1
		}
	}
	return len(spans)
}

// nearRows is the largest gap in bytes between two headers that are fetched from a store together.
// A store sends as much while it would process another request.
const nearRows = 128 << 10

// spans groups rows whose headers are read together: neighbors in a store, and samples that are
// compressed together, which are unpacked once. Other rows are read one by one; of many on this
// machine, a few are a span, which takes less memory.
func (s *scanner) spans(rows []int) (spans [][]int) {
	t, remote := s.table, s.src.remote != nil
	if t.members == nil {
		few := 1
		if !remote {
			few = min(max(1, len(rows)/(256*s.requests())), 32)
		}
		return slices.Collect(slices.Chunk(rows, few))
	}
	rows = slices.Clone(rows)
	slices.SortFunc(rows, func(a, b int) int {
		return cmp.Or(cmp.Compare(t.members[a].object, t.members[b].object), cmp.Compare(t.members[a].Offset, t.members[b].Offset))
	})
	first := 0
	for i := 1; i <= len(rows); i++ {
		if i < len(rows) {
			from, before, m := &t.members[rows[first]], &t.members[rows[i-1]], &t.members[rows[i]]
			near := remote && m.Offset <= before.headEnd()+nearRows && m.headEnd()-from.Offset <= s.block()
			if m.object == from.object && (near || m.Coding != archive.Plain && m.Offset == before.Offset) {
				continue
			}
		}
		spans = append(spans, rows[first:i])
		first = i
	}
	return spans
}

// headEnd is the offset after the bytes that are read for a sample's header.
func (m *member) headEnd() int64 {
	if m.Coding != archive.Plain {
		return m.Offset + m.Length
	}
	return m.Offset + min(m.Length, firstProbe)
}

// scanWorker is the part of a scan that one goroutine does.
type scanWorker struct {
	*scanner
	ctx    context.Context
	memory *holding // accounts for the fields below, except for keepProbe bytes
	buf    []byte
	ahead  []byte // bytes of the object from aheadAt on, for the current span
	at     int64
	block  block
}

// drop forgets a span.
func (w *scanWorker) drop() {
	if w.ahead, w.block = nil, (block{}); len(w.buf) > keepProbe {
		w.buf = nil
	}
	w.memory.release()
}

// take must be called before n bytes are allocated.
func (w *scanWorker) take(n int) error {
	if w.memory.take(int64(n)) != nil {
		return ErrStopped
	}
	return nil
}

// span fills in the rows of a span.
func (w *scanWorker) span(rows []int) error {
	defer func(n int) { w.done.Add(int64(n)) }(len(rows))
	defer w.drop()
	rows = slices.DeleteFunc(slices.Clone(rows), w.reuse)
	if len(rows) > 1 && w.src.remote != nil {
		if f, err := w.storage.openRow(w.ctx, w.table, rows[0]); err == nil {
			w.at = f.at // where ahead begins
			end := w.table.members[rows[len(rows)-1]].headEnd()
			if err := w.take(int(end - w.at)); err != nil {
				return err
			}
			w.ahead = make([]byte, end-w.at)
			if _, err := w.storage.fetch(w.ctx, &f, w.ahead, w.at); err != nil {
				w.ahead = nil // each row finds the problem itself
			}
		}
	}
	for _, i := range rows {
		if err := w.row(i); err != nil {
			return err
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.read = append(w.read, rows...)
	return nil
}

// row fills in one row. It fails only if the scan cannot go on.
func (w *scanWorker) row(i int) error {
	w.scanned.Add(1)
	seen := w.src.seen.Load()
	h, id, bad, err := w.header(i)
	if err != nil && w.src.remote == nil && isStorage(err) {
		if _, why := w.src.examine(seen, w.table); why != nil {
			return &FileError{Path: w.table.path(i), Err: why}
		}
		h, id, bad, err = w.header(i) // try again in case the failure was temporary
	}
	switch {
	case err == nil:
		w.table.row[i].id = id
		if bad == nil {
			bad = w.table.row[i].set(h)
		}
		if bad != nil {
			w.table.addBad(i, reason(bad), false)
		}
	case errors.Is(err, ErrStopped):
		return err
	case isLack(err) || w.src.remote != nil && fault.Of(err) != fault.File: // no file can be read, so the error does not make this one bad
		return &FileError{Path: w.table.path(i), Err: err}
	default:
		if fault.Of(err) != fault.File {
			w.table.row[i].id.ModTime = UnknownTime // so that it is tried again
		}
		w.table.addBad(i, reason(err), fault.Of(err) != fault.File)
	}
	return nil
}

// header opens row i's file and reads its header; see probe.
func (w *scanWorker) header(i int) (h Header, id Identity, bad, err error) {
	f, err := w.storage.openRow(w.ctx, w.table, i)
	if err != nil {
		return h, unknown, nil, err
	}
	defer w.storage.close(&f)
	f.ahead, f.aheadAt = w.ahead, w.at
	h, bad, err = w.probe(&f)
	return h, f.id, bad, err
}

// set stores a header in a row, unless it contradicts the manifest.
func (s *sample) set(h Header) error {
	if h.Orientation < 1 || h.Orientation > 8 {
		h.Orientation = 1
	}
	if h.Orientation >= 5 {
		h.Height, h.Width = h.Width, h.Height
	}
	if !s.allows(h.Height, h.Width) {
		text := func(n int32) string {
			if n == 0 {
				return "?"
			}
			return strconv.Itoa(int(n))
		}
		return fmt.Errorf("is %dx%d, but the manifest says %sx%s", h.Height, h.Width, text(s.height), text(s.width))
	}
	s.format, _ = formatNumber(h.Format)
	s.height, s.width, s.orient = int32(h.Height), int32(h.Width), h.Orientation
	return nil
}

// allows says whether an upright image of a size agrees with what the manifest says about a row
// that is not scanned yet.
func (s *sample) allows(height, width int) bool {
	return (s.height == 0 || int(s.height) == height) && (s.width == 0 || int(s.width) == width)
}

// reuse fills in row i from its claim, if its file is unchanged. It ignores a claim whose header
// came from a manifest, since that has no identity and does not describe the file itself, and one
// that contradicts the present manifest.
func (w *scanWorker) reuse(i int) bool {
	if w.claims == nil || w.claims[i].table == nil {
		return false
	}
	from, k := w.claims[i].table, int(w.claims[i].row)
	row, old := &w.table.row[i], from.row[k]
	problem := from.problem(k, false)
	// The size of a bad file came from the old manifest, and may be what was wrong.
	said := problem != "" && (old.height != 0 || old.width != 0 || row.height != 0 || row.width != 0)
	if !old.id.Known() || said || problem == "" && old.format == 0 || !row.allows(int(old.height), int(old.width)) {
		return false
	}
	if w.src.remote == nil && !w.Merge { // a merge trusts the parts
		if now, err := w.storage.look(w.table.path(i)); err != nil || now != old.id {
			return false
		}
	}
	w.table.takeHeader(i, from, k)
	return true
}
