package dataset

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/batchfs/batchfs/internal/parallel"
)

// scanner reads the headers of given rows of a table.
type scanner struct {
	*opening
	table    *store
	previous *rowFinder // nil: no earlier index

	scanned, reused atomic.Int64
	mu              sync.Mutex // guards the table's formatNames and bad rows
}

// scan completes the given rows of a table. Rows that old has are only read if their files
// changed. Nothing may read the rows meanwhile.
func (p *opening) scan(t *store, old *index, rows []int) error {
	if len(rows) == 0 {
		return nil
	}
	s := &scanner{opening: p, table: t}
	if old != nil {
		s.previous = &rowFinder{table: old.table}
	}
	for _, row := range rows {
		delete(t.bad, uint32(row))
	}
	workers := p.Workers
	if workers < 1 {
		workers = runtime.GOMAXPROCS(0)
	}
	err := parallel.Each(p.ctx, workers, len(rows), p.Progress, func(ctx context.Context, items iter.Seq[int]) error {
		w := &scanWorker{scanner: s, stop: ctx.Done()}
		for i := range items {
			if err := w.row(rows[i]); err != nil {
				return cmp.Or(ctx.Err(), err)
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	p.report.Scanned += int(s.scanned.Load())
	p.report.Reused += int(s.reused.Load())
	return nil
}

// scanWorker is one goroutine's part of a scan.
type scanWorker struct {
	*scanner
	stop  <-chan struct{}
	buf   []byte
	shift int // offset from a row to its match in the previous table, from the last match
}

// row fills in one row. It returns an error only if the scan itself cannot go on.
func (w *scanWorker) row(i int) error {
	if w.reuse(i) {
		w.reused.Add(1)
		return nil
	}
	w.scanned.Add(1)
	h, id, bad, err := w.header(i)
	if err != nil && isStorage(err) {
		r := w.roots.use()
		_, why := w.roots.examine(r, w.table)
		r.release()
		if why != nil {
			return &FileError{Path: w.table.path(i), Err: why}
		}
		h, id, bad, err = w.header(i) // a single failure is tried again
	}
	switch {
	case err == nil && bad == nil:
		w.table.setIdentity(i, id)
		return w.set(i, h)
	case err == nil:
		w.table.setIdentity(i, id)
		w.bad(i, reason(bad), false)
	case errors.Is(err, ErrStopped):
		return err
	case isLack(err): // no file can be read, so none is bad
		return &FileError{Path: w.table.path(i), Err: err}
	default:
		w.bad(i, reason(err), !OfFile(err))
	}
	return nil
}

// header opens row i's file and reads its header; see probe.
func (w *scanWorker) header(i int) (h Header, id Identity, bad, err error) {
	r := w.roots.use()
	f, err := w.storage.open(r.fd, w.table.cpath(i))
	r.release()
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

func (s *scanner) bad(i int, text string, unread bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.table.addBad(i, text, unread)
}

// set stores a header, unless it contradicts the manifest.
func (w *scanWorker) set(i int, h Header) error {
	if h.Orientation < 1 || h.Orientation > 8 {
		h.Orientation = 1
	}
	if h.Orientation >= 5 {
		h.Height, h.Width = h.Width, h.Height
	}
	t := w.table
	if !t.allows(i, h.Height, h.Width) {
		text := func(n int32) string {
			if n == 0 {
				return "?"
			}
			return strconv.Itoa(int(n))
		}
		w.bad(i, fmt.Sprintf("is %dx%d, but the manifest says %sx%s", h.Height, h.Width, text(t.row[i].height), text(t.row[i].width)), false)
		return nil
	}
	return w.store(i, h)
}

func (w *scanWorker) store(i int, h Header) (err error) {
	t := w.table
	w.mu.Lock()
	t.row[i].format, err = t.internFormat(h.Format)
	w.mu.Unlock()
	t.row[i].height, t.row[i].width, t.row[i].orient = int32(h.Height), int32(h.Width), h.Orientation
	return err
}

// allows says whether an upright image may have a size, given what the manifest says about a row
// that is not scanned yet.
func (s *store) allows(i, height, width int) bool {
	h, w := int(s.row[i].height), int(s.row[i].width)
	return (h == 0 || h == height) && (w == 0 || w == width)
}

// reuse copies row i from the earlier table if its file is unchanged. It never takes a row
// whose header came from a manifest, since such a row has no identity and does not describe the
// file itself, nor a row that contradicts what the manifest says now.
func (w *scanWorker) reuse(i int) bool {
	if w.previous == nil {
		return false
	}
	from, ok := w.previous.find(w.table.path(i), i+w.shift)
	if !ok {
		return false
	}
	w.shift = from - i
	old := w.previous.table
	was, known := old.identity(from)
	problem, _ := old.problem(from)
	height, width := int(old.row[from].height), int(old.row[from].width)
	// The size of a bad file is what the manifest said then, which may be what was wrong.
	said := problem != "" && (height != 0 || width != 0 || w.table.row[i].height != 0 || w.table.row[i].width != 0)
	if !known || said || !w.table.allows(i, height, width) {
		return false
	}
	r := w.roots.use()
	now, err := w.storage.look(r.fd, w.table.path(i))
	r.release()
	if err != nil || now != was {
		return false
	}
	w.table.setIdentity(i, was)
	if problem != "" {
		w.bad(i, problem, false)
		return true
	}
	h := Header{Format: old.formatNames[old.row[from].format], Height: height, Width: width, Orientation: old.row[from].orient}
	return w.store(i, h) == nil
}

// rowFinder finds rows of an earlier table by path. Most datasets change little, so a row is
// usually found right where the previous match suggests. A map is made only when that fails.
type rowFinder struct {
	table *store
	once  sync.Once
	rows  map[string]uint32
}

// find returns the row with that path, trying guess first.
func (f *rowFinder) find(path string, guess int) (int, bool) {
	if guess >= 0 && guess < f.table.rows() && f.table.path(guess) == path {
		return guess, true
	}
	f.once.Do(func() {
		f.rows = make(map[string]uint32, f.table.rows())
		for row := range f.table.rows() {
			f.rows[f.table.path(row)] = uint32(row)
		}
	})
	row, ok := f.rows[path]
	return int(row), ok
}
