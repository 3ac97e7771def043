package entries

import (
	"context"
	"errors"
	"maps"
	"time"

	"github.com/batchfs/batchfs/internal/parallel"
)

const (
	mostNotes  = 128 << 10 // bytes that notes may take
	noteSize   = 128       // bytes per note besides its record
	flushAfter = time.Second
	closeWait  = 2 * time.Second // for a write that hangs
)

// A note is what must be written for a file. It does not change.
type note struct {
	slot   slot   // has no offset yet; an empty slot means that the file is forgotten
	record []byte // without entry points, only the CRC, which is not written
}

func (n *note) size() int { return noteSize + cap(n.record) }

// text is the text for the note's slot.
func (n *note) text(b *Buffer) []byte {
	if !n.slot.known() {
		return nil
	}
	b.b = append(b.grow(factsSize), n.record...)
	return b.b
}

// Put stores the entry points of a file, replacing those of an earlier version. The bytes stay the
// caller's. If there is no room for them, they are dropped.
func (s *Store) Put(f File, p Points) {
	if len(p.Bytes) > maxPoints*pointSize || len(p.Bytes)%pointSize != 0 {
		p.Bytes = nil
	}
	text := make([]byte, factsSize, factsSize+crcSize+len(p.Bytes)+len(f.Path))
	text = append(le.AppendUint32(text, p.CRC), p.Bytes...)
	at := slot{count: len(p.Bytes) / pointSize, tag: hashOf(f.Path) & tagMask}
	if at.count == 0 {
		at.offset = int64(p.CRC)
	}
	_, at.check = seal(text, s.rule, f)
	s.note(f, &note{at, text[factsSize:]})
}

// Forget makes a file unknown.
func (s *Store) Forget(f File) { s.note(f, &note{}) }

// note adds a note about a file, replacing an earlier one.
func (s *Store) note(f File, n *note) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.options.Wait && s.writes.Load() && s.taken+n.size() > mostNotes {
		s.room.Wait()
	}
	if !s.writes.Load() || s.taken+n.size() > mostNotes {
		return
	}
	before, hash := s.taken, hashOf(f.Path)
	s.forget(hash, s.notes[hash])
	s.notes[hash] = n
	s.taken += n.size()
	s.unsaved.Store(true)
	if before == 0 || before <= mostNotes/2 && s.taken > mostNotes/2 {
		s.schedule()
	}
}

// schedule has the notes written: at once if they take half of their room, so that there is some
// for more meanwhile. The lock is held.
func (s *Store) schedule() {
	wait := flushAfter
	if s.taken > mostNotes/2 {
		wait = 0
	}
	s.timer.Reset(wait)
}

// forget removes a note, unless there is a later one. The lock is held.
func (s *Store) forget(hash uint64, n *note) {
	if n != nil && s.notes[hash] == n {
		s.taken -= n.size()
		delete(s.notes, hash)
	}
}

// flush writes the notes, unless a write failed before.
func (s *Store) flush() {
	s.writing.Lock()
	defer s.writing.Unlock()
	s.mu.Lock()
	notes, err := maps.Clone(s.notes), s.failed
	s.mu.Unlock()
	if err == nil && len(notes) > 0 {
		err = s.save(s.appender, notes)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for hash, n := range notes {
		s.forget(hash, n)
	}
	s.unsaved.Store(len(s.notes) > 0)
	if err != nil && s.failed == nil {
		s.failed = err
		s.writes.Store(false)
		s.options.Logger.Warn("no more entry points are stored", "file", s.options.Path, "reason", err)
	}
	if s.writes.Load() && len(s.notes) > 0 {
		s.schedule()
	}
	s.room.Broadcast()
}

// errHangs means that a write did not end.
var errHangs = errors.New("the storage of the entry points does not answer")

// Close writes the remaining notes and ends the use of the file. It returns the error of the first
// write that failed at any time. If writing hangs, Close gives up after two seconds. A nil Store
// may be closed.
func (s *Store) Close() error {
	switch {
	case s == nil:
		return nil
	case s.appender == nil:
		return s.file.Close()
	}
	s.mu.Lock()
	s.timer.Stop()
	s.writes.Store(false)
	s.room.Broadcast()
	s.mu.Unlock()
	ctx, stop := context.WithTimeout(context.Background(), closeWait)
	defer stop()
	_, err := parallel.Promptly(ctx, func() (struct{}, error) {
		s.flush()
		s.appender.Close()
		s.file.Close()
		return struct{}{}, s.failed
	}, nil)
	if errors.Is(err, context.DeadlineExceeded) {
		err = errHangs
	}
	return err
}
