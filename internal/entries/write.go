package entries

import (
	"errors"
	"time"
)

const (
	batchRecords = maxRecord // bytes
	batchSlots   = 512       // many files can have no entry points
	flushAfter   = time.Second
	closeWait    = 2 * time.Second // for a write that hangs
)

// A batch is what is written together. Until then, offsets are those in records.
type batch struct {
	records []byte
	slots   map[uint64]slot // by the hash of the path; empty: to be forgotten
	text    []byte          // to be sealed
}

func newBatch() *batch { return &batch{slots: map[uint64]slot{}} }

func (b *batch) fits(bytes int) bool {
	return len(b.records)+bytes <= batchRecords && len(b.slots) < batchSlots
}

// due says whether it is time to write, so that there is room for more meanwhile.
func (b *batch) due() bool {
	return len(b.records) > batchRecords/2 || len(b.slots) > batchSlots/2
}

// add takes a slot with its record, which is none but a CRC if there are no entry points.
func (b *batch) add(hash uint64, s slot, record []byte) {
	if s.offset = int64(len(b.records)); s.count > 0 {
		b.records = append(b.records, record...)
	} else {
		s.offset = int64(le.Uint32(record))
	}
	b.slots[hash] = s
}

// Put stores the entry points of a file, in place of those of an earlier version of it. The bytes
// stay the caller's. If there is no room for them, they are forgotten.
func (s *Store) Put(f File, p Points) {
	if len(p.Bytes) > maxPoints*pointSize || len(p.Bytes)%pointSize != 0 {
		p.Bytes = nil
	}
	hash := hashOf(f.Path)
	s.change(crcSize+len(p.Bytes), func(b *batch) {
		text := append(b.text[:0], make([]byte, factsSize)...)
		text = append(le.AppendUint32(text, p.CRC), p.Bytes...)
		end := len(text)
		var check uint32
		b.text, check = seal(text, s.rule, f)
		at := slot{count: len(p.Bytes) / pointSize, tag: hash & tagMask, check: check}
		b.add(hash, at, b.text[factsSize:end])
	})
}

// Forget makes a file unknown.
func (s *Store) Forget(f File) {
	s.change(0, func(b *batch) { b.slots[hashOf(f.Path)] = slot{} })
}

// change takes a note that has a record of some bytes.
func (s *Store) change(bytes int, note func(*batch)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.writes.Load() && !s.next.fits(bytes) {
		if s.wakeUp(); !s.options.Wait {
			return
		}
		s.room.Wait()
	}
	if !s.writes.Load() {
		return
	}
	if len(s.next.slots) == 0 {
		s.timer.Reset(flushAfter)
	}
	note(s.next)
	s.unsaved.Store(true)
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
	if len(b.slots) > 0 && err == nil {
		err = s.save(s.appender, b)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.writing = nil
	s.unsaved.Store(len(s.next.slots) > 0)
	if err != nil && s.failed == nil {
		s.failed = err
		s.writes.Store(false)
		s.options.Logger.Warn("no more entry points are stored", "file", s.options.Path, "reason", err)
	}
	s.room.Broadcast()
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
		return errHangs
	}
}

// errHangs means that a write did not end.
var errHangs = errors.New("the storage of the entry points does not answer")
