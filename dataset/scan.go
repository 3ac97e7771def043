package dataset

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"strconv"
	"sync/atomic"

	"github.com/batchfs/batchfs/internal/parallel"
)

// scanner reads the headers of given rows of a table.
type scanner struct {
	*opening
	table    *table
	previous *table         // nil: no earlier index
	rowOf    map[string]int // of previous, by path
	scanned  atomic.Int64   // rows whose header was read
}

// scan completes the given rows of a table. Rows that old has are only read if their files
// changed. Nothing may read the rows meanwhile.
func (p *opening) scan(t *table, old *index, rows []int) error {
	if len(rows) == 0 {
		return nil
	}
	s := &scanner{opening: p, table: t}
	if old != nil {
		s.previous, s.rowOf = old.table, old.table.byPath()
	}
	for _, row := range rows {
		delete(t.bad, uint32(row))
	}
	err := parallel.Each(p.ctx, p.requests(), len(rows), p.Progress, func(ctx context.Context, items iter.Seq[int]) error {
		w := &scanWorker{scanner: s, stop: ctx.Done()}
		for i := range items {
			if err := w.row(rows[i]); err != nil {
				return cmp.Or(ctx.Err(), err)
			}
		}
		return nil
	})
	p.report.Scanned = int(s.scanned.Load())
	p.report.Reused += len(rows) - p.report.Scanned
	return err
}

// scanWorker is one goroutine's part of a scan.
type scanWorker struct {
	*scanner
	stop <-chan struct{}
	buf  []byte
}

// row fills in one row. It returns an error only if the scan itself cannot go on.
func (w *scanWorker) row(i int) error {
	if w.reuse(i) {
		return nil
	}
	w.scanned.Add(1)
	seen := w.src.seen.Load()
	h, id, bad, err := w.header(i)
	if err != nil && w.src.remote == nil && isStorage(err) {
		if _, why := w.src.examine(seen, w.table); why != nil {
			return &FileError{Path: w.table.path(i), Err: why}
		}
		h, id, bad, err = w.header(i) // a single failure is tried again
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
	case isLack(err) || w.src.remote != nil && !OfFile(err): // no file can be read, so none is bad
		return &FileError{Path: w.table.path(i), Err: err}
	default:
		if !OfFile(err) {
			w.table.row[i].id = unknown // so that it is tried again
		}
		w.table.addBad(i, reason(err), !OfFile(err))
	}
	return nil
}

// header opens row i's file and reads its header; see probe.
func (w *scanWorker) header(i int) (h Header, id Identity, bad, err error) {
	f, err := w.storage.openRow(w.src, w.table, i, w.stop)
	if err != nil {
		return h, unknown, nil, err
	}
	defer w.storage.close(&f)
	h, bad, err = w.probe(&f)
	if len(w.buf) > keepProbe {
		w.buf = nil
	}
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

// allows says whether an upright image may have a size, given what the manifest says about a row
// that is not scanned yet.
func (s *sample) allows(height, width int) bool {
	return (s.height == 0 || int(s.height) == height) && (s.width == 0 || int(s.width) == width)
}

// reuse copies row i from the earlier table if its file is unchanged. It never takes a row
// whose header came from a manifest, since such a row has no identity and does not describe the
// file itself, nor a row that contradicts what the manifest says now.
func (w *scanWorker) reuse(i int) bool {
	from, ok := w.rowOf[w.table.path(i)]
	if !ok {
		return false
	}
	row, old := &w.table.row[i], w.previous.row[from]
	problem := w.previous.problem(from, false)
	// The size of a bad file is what the manifest said then, which may be what was wrong.
	said := problem != "" && (old.height != 0 || old.width != 0 || row.height != 0 || row.width != 0)
	if !old.id.Known() || said || !row.allows(int(old.height), int(old.width)) {
		return false
	}
	now, err := row.id, error(nil)
	if w.src.remote == nil && w.table.members == nil {
		now, err = w.storage.look(w.src.dir, w.table.path(i))
	}
	if err != nil || now != old.id || !w.table.samePlace(i, w.previous, from) {
		return false
	}
	row.id = now
	if problem != "" {
		w.table.addBad(i, problem, false)
		return true
	}
	row.format, row.height, row.width, row.orient = old.format, old.height, old.width, old.orient
	return true
}
