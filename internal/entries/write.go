package entries

import (
	"errors"
	"io"
	"os"
	"time"
)

const (
	batchPoints = MaxPoints * pointSize // bytes
	batchRows   = 512                   // many files can have none
	flushAfter  = time.Second
	closeWait   = 2 * time.Second // for a write that hangs
)

// A batch is what is written together. Until then, offsets are those in points.
type batch struct {
	points []byte
	rows   []pendingRow
	at     map[int]int // the latest of rows with a number
	text   []byte      // to be sealed
}

type pendingRow struct {
	number int
	row
}

func newBatch() *batch { return &batch{at: map[int]int{}} }

func (b *batch) fits(points []byte) bool {
	return len(b.points)+len(points) <= batchPoints && len(b.rows) < batchRows
}

// due says whether it is time to write, so that there is room for more meanwhile.
func (b *batch) due() bool { return len(b.points) > batchPoints/2 || len(b.rows) > batchRows/2 }

func (b *batch) add(i int, r row, points []byte) {
	if len(points) > 0 {
		r.offset = int64(len(b.points))
		b.points = append(b.points, points...)
	}
	b.at[i] = len(b.rows)
	b.rows = append(b.rows, pendingRow{i, r})
}

func (b *batch) row(i int) (r row, found bool) {
	if b == nil {
		return r, false
	}
	k, found := b.at[i]
	if found {
		r = b.rows[k].row
	}
	return r, found
}

// Put stores the entry points of a row that is of file f. The bytes stay the caller's. If there is
// no room for them, they are forgotten.
func (s *Store) Put(i int, f File, p Points) {
	if len(p.Bytes) > MaxPoints*pointSize || len(p.Bytes)%pointSize != 0 {
		p.Bytes = nil
	}
	s.add(i, func(b *batch) row {
		r := row{count: len(p.Bytes) / pointSize, crc: p.CRC}
		b.text = append(append(b.text[:0], make([]byte, factsSize)...), p.Bytes...)
		b.text, r.check = seal(b.text, s.rule, r.crc, f)
		return r
	}, p.Bytes)
}

// Forget makes a row unknown.
func (s *Store) Forget(i int) { s.add(i, func(*batch) row { return row{} }, nil) }

func (s *Store) add(i int, seal func(*batch) row, points []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.writes.Load() && !s.next.fits(points) {
		if s.wakeUp(); !s.options.Wait {
			return
		}
		s.room.Wait()
	}
	if !s.writes.Load() {
		return
	}
	if len(s.next.rows) == 0 {
		s.timer.Reset(flushAfter)
	}
	s.next.add(i, seal(s.next), points)
	s.unsaved.Add(1)
	if s.next.due() {
		s.wakeUp()
	}
}

// wakeUp makes the writer write. The lock is held.
func (s *Store) wakeUp() {
	select {
	case s.wake <- struct{}{}:
	default: // it is awake
	}
}

func (s *Store) poke() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.writes.Load() {
		s.wakeUp()
	}
}

// write is the writer.
func (s *Store) write() {
	defer close(s.ended)
	for range s.wake {
		s.flush()
	}
	s.flush()
}

// flush writes what there is, unless a write failed before.
func (s *Store) flush() {
	s.mu.Lock()
	b := s.next
	s.writing, s.next = b, newBatch()
	err := s.failed
	s.mu.Unlock()
	if len(b.rows) > 0 && err == nil {
		err = s.save(b)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.writing = nil
	s.unsaved.Add(-int64(len(b.rows)))
	if err != nil && s.failed == nil {
		s.failed = err
		s.writes.Store(false)
		s.options.Logger.Warn("no more entry points are stored", "file", s.options.Path, "reason", err)
	}
	s.room.Broadcast()
}

// save writes a batch: entry points first, so that no row is ahead of its own.
func (s *Store) save(b *batch) error {
	start, err := appendTo(s.appender, b.points)
	if err != nil {
		return err
	}
	if start+int64(len(b.points)) > maxOffset {
		return errors.New("the file is too large")
	}
	var room [rowSize]byte
	for _, r := range b.rows {
		if r.count > 0 {
			r.offset += start
		}
		if _, err := s.file.WriteAt(r.append(room[:0]), rowAt(r.number)); err != nil {
			return err
		}
	}
	return nil
}

// appendTo appends bytes and returns where they are, even if other processes append too: the kernel
// moves the descriptor's position to their end.
func appendTo(f *os.File, b []byte) (start int64, err error) {
	if len(b) == 0 {
		return 0, nil
	}
	if _, err := f.Write(b); err != nil {
		return 0, err
	}
	end, err := f.Seek(0, io.SeekCurrent)
	return end - int64(len(b)), err
}

// Close writes what is left and ends the use of the file. Its error is that of a write that failed
// at any time. If writing hangs, Close gives it up after two seconds. A nil Store may be closed.
func (s *Store) Close() error {
	switch {
	case s == nil:
		return nil
	case s.appender == nil:
		return s.file.Close()
	}
	s.timer.Stop()
	s.mu.Lock()
	s.writes.Store(false)
	s.room.Broadcast()
	close(s.wake)
	s.mu.Unlock()
	select {
	case <-s.ended:
		s.appender.Close()
		s.file.Close()
		return s.failed
	case <-time.After(closeWait):
		return ErrHangs
	}
}

// ErrHangs means that a write did not end.
var ErrHangs = errors.New("the storage of the entry points does not answer")
