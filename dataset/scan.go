package dataset

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"

	"golang.org/x/sync/errgroup"
)

// scanChunk is how many rows a worker takes at a time: enough to make the locking negligible,
// few enough for steady progress and prompt cancellation.
const scanChunk = 64

// scanner reads the headers of given rows of a table.
type scanner struct {
	roots    *roots
	storage  *storage
	table    *store
	previous *rowFinder // nil: no earlier index
	prober   Prober
	workers  int
	progress func(done, total int64)

	mu      sync.Mutex // guards the following fields and calls of progress
	rows    []uint32   // rows[next:] have not been taken
	next    int
	done    int64
	scanned int
	reused  int
	found   problems
}

// run scans rows (ascending) and completes the table, including its list of bad rows. Nothing
// may read the rows meanwhile.
func (s *scanner) run(ctx context.Context, rows []uint32) error {
	s.rows = rows
	s.found.keep(s.table, rows)
	if s.workers < 1 {
		s.workers = runtime.GOMAXPROCS(0)
	}
	if s.progress != nil {
		s.progress(0, int64(len(rows)))
	}
	group, ctx := errgroup.WithContext(ctx)
	for range min(s.workers, len(rows)/scanChunk+1) {
		group.Go(func() error { return s.work(ctx) })
	}
	if err := group.Wait(); err != nil {
		return err
	}
	s.found.store(s.table)
	return nil
}

func (s *scanner) work(ctx context.Context) error {
	w := &scanWorker{scanner: s, stop: ctx.Done(), formats: map[string]uint8{}}
	for {
		rows := s.take()
		if len(rows) == 0 {
			s.finish(w)
			return nil
		}
		for _, row := range rows {
			if err := ctx.Err(); err != nil {
				return err
			}
			if err := w.row(int(row)); err != nil {
				return cmp.Or(ctx.Err(), err)
			}
		}
		s.advance(int64(len(rows)))
	}
}

func (s *scanner) take() []uint32 {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := min(scanChunk, len(s.rows)-s.next)
	rows := s.rows[s.next : s.next+n]
	s.next += n
	return rows
}

func (s *scanner) advance(n int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.done += n
	if s.progress != nil {
		s.progress(s.done, int64(len(s.rows)))
	}
}

func (s *scanner) finish(w *scanWorker) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.scanned += w.scanned
	s.reused += w.reused
	s.found.merge(&w.found)
}

// scanWorker is one goroutine's part of a scan.
type scanWorker struct {
	*scanner
	stop    <-chan struct{}
	buf     []byte
	formats map[string]uint8
	shift   int // offset from a row to its match in the previous table, from the last match
	scanned int
	reused  int
	found   problems
}

// row fills in one row. It returns an error only if the scan itself cannot go on.
func (w *scanWorker) row(i int) error {
	if w.reuse(i) {
		w.reused++
		return nil
	}
	w.scanned++
	h, id, err := w.probe(i)
	for tries := 1; tries < probeTries && failed(err) && isStorage(err); tries++ {
		r := w.roots.use()
		_, why := w.roots.examine(r, w.table)
		r.release()
		if why != nil {
			return &FileError{Path: w.table.path(i), Err: why}
		}
		h, id, err = w.probe(i)
	}
	switch {
	case err == nil:
		w.table.setIdentity(i, id)
		return w.set(i, h)
	case errors.Is(err, ErrStopped):
		return err
	case !failed(err):
		w.table.setIdentity(i, id)
		w.found.add(uint32(i), reason(err), false)
	case isLack(err): // no file can be read, so none is bad
		return &FileError{Path: w.table.path(i), Err: err}
	default:
		w.found.add(uint32(i), reason(err), !OfFile(err))
	}
	return nil
}

// probeTries is how often a header is tried when the storage fails.
const probeTries = 2

// probe reads row i's header. Any error that is not the Prober's is a readError.
func (w *scanWorker) probe(i int) (Header, Identity, error) {
	r := w.roots.use()
	f, err := w.storage.open(r.fd, w.table.cpath(i))
	r.release()
	if err != nil {
		return Header{}, unknown, &readError{err}
	}
	defer w.storage.close(&f)
	var h Header
	h, w.buf, err = w.storage.probe(&f, w.prober, w.buf, w.stop)
	if len(w.buf) > keepProbe {
		w.buf = nil
	}
	return h, f.id, err
}

// failed distinguishes a failure to read from a Prober's verdict.
func failed(err error) bool {
	var e *readError
	return errors.As(err, &e)
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
	if said, given := t.promise(i); given && !said.holds(h) {
		w.found.add(uint32(i), fmt.Sprintf("is %dx%d, but the manifest says %s", h.Height, h.Width, said), false)
		return nil
	}
	format, err := w.format(h.Format)
	if err != nil {
		return err
	}
	t.heights[i], t.widths[i] = int32(h.Height), int32(h.Width)
	t.orients[i], t.formats[i] = h.Orientation, format
	return nil
}

func (w *scanWorker) format(name string) (uint8, error) {
	if k, ok := w.formats[name]; ok {
		return k, nil
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	k, err := w.table.internFormat(name)
	w.formats[name] = k
	return k, err
}
