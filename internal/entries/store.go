package entries

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/batchfs/batchfs/internal/owned"
)

// Options say which entry points to store.
type Options struct {
	Path    string // of the file with entry points
	Samples int    // number of samples, for a new file
	// Rule is for a new file: above 0, or -1. An existing file keeps its own rule, unless Strict is
	// set, which replaces a file with another rule.
	Rule   int32
	Strict bool
	// Wait makes Put wait for room, instead of dropping entry points.
	Wait   bool
	Logger *slog.Logger // nil: none
}

// A Store has the entry points of a dataset's samples. Its methods are safe for concurrent use.
type Store struct {
	options Options
	table
	appender *os.File    // nil: the file is read-only
	writes   atomic.Bool // entry points can be added
	opened   time.Time
	reading  atomic.Int64 // start of one of the reads in progress, in ns after opened; 0: none
	unsaved  atomic.Bool  // there are notes

	mu      sync.Mutex
	notes   map[uint64]*note // not written yet, by the hash of the path
	taken   int              // bytes of notes
	failed  error            // error of the first failed write, after which there are no others
	room    sync.Cond
	timer   *time.Timer // flushes
	writing sync.Mutex  // held by flush
}

// Open opens the file. It makes a new one if the file is missing or unusable. A file that cannot be
// written is only read. The error says why there is no file.
func Open(o Options) (*Store, error) {
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	s := &Store{options: o, opened: time.Now(), notes: map[uint64]*note{}}
	s.room.L = &s.mu
	if err := s.open(); err != nil {
		if err = s.make(err); err == nil {
			err = s.open()
		}
		if err != nil {
			return nil, err
		}
	}
	s.timer = time.AfterFunc(time.Hour, s.flush)
	s.timer.Stop()
	s.writes.Store(s.appender != nil)
	return s, nil
}

// make makes a new file because the old one is unusable. If reason is the machine's fault, it
// returns that instead.
func (s *Store) make(reason error) error {
	o := s.options
	empty := newHeader(o.Rule, o.Samples)
	switch {
	case errors.Is(reason, fs.ErrNotExist):
		if err := owned.Create(o.Path, empty.write); !errors.Is(err, fs.ErrExist) { // another store has made it
			return err
		}
		return nil
	case errors.As(reason, new(*fs.PathError)) && !errors.Is(reason, unix.ELOOP): // ELOOP: a link
		return reason
	}
	o.Logger.Debug("entry points are made anew", "file", o.Path, "reason", reason)
	return owned.Replace(o.Path, empty.write)
}

var errRule = errors.New("its entry points are at other places")

// open opens the existing file.
func (s *Store) open() error {
	f, size, writable, err := openFile(s.options.Path)
	if err != nil {
		return err
	}
	s.file, s.appender = f, nil
	s.header, err = readHeader(f, size)
	if err == nil && s.options.Strict && s.rule != s.options.Rule {
		err = errRule
	}
	if err == nil && writable {
		s.appender, err = sameFile(f, s.options.Path)
	}
	if err != nil {
		f.Close()
	}
	return err
}

// sameFile opens the file that f is, to append to it.
func sameFile(f *os.File, path string) (*os.File, error) {
	a, _, err := owned.Open(path, os.O_WRONLY|os.O_APPEND)
	if err != nil {
		return nil, err
	}
	one, err := f.Stat()
	two, other := a.Stat()
	if err != nil || other != nil || !os.SameFile(one, two) {
		a.Close()
		return nil, fmt.Errorf("%w any more: it was replaced", fs.ErrNotExist)
	}
	return a, nil
}

// Rule is where the entry points are.
func (s *Store) Rule() int32 { return s.rule }

// Writes reports whether entry points can be added.
func (s *Store) Writes() bool { return s.writes.Load() }

// Bytes is the size of the file, even after Close.
func (s *Store) Bytes() int64 {
	info, err := os.Stat(s.options.Path)
	if err != nil {
		return 0
	}
	return info.Size()
}

// A Buffer is memory for what a goroutine reads. The zero value is ready for use.
type Buffer struct{ b []byte }

// grow returns n bytes.
func (b *Buffer) grow(n int) []byte {
	b.b = slices.Grow(b.b[:0], n)
	return b.b[:n]
}

// Points are a file's entry points.
type Points struct {
	Bytes []byte // empty: the file cannot have any
	CRC   uint32 // of the file they were made from
}

// patience is how long a read may hang before other reads are skipped.
const patience = time.Second

// Get returns what is known about a file; nothing while another read hangs. The result lies in the
// buffer. Once the buffer has grown, nothing is allocated.
func (s *Store) Get(f File, b *Buffer) (p Points, known bool) {
	now := int64(time.Since(s.opened)) + 1
	if began := s.reading.Load(); began != 0 && now-began > int64(patience) {
		return Points{}, false
	}
	if s.reading.CompareAndSwap(0, now) {
		defer s.reading.Store(0)
	}
	at, text := s.latest(hashOf(f.Path), b)
	if text == nil {
		return Points{}, false
	}
	all, check := seal(text, s.rule, f)
	if b.b = all; check != at.check {
		return Points{}, false
	}
	record := all[factsSize:len(text)]
	return Points{record[crcSize:], le.Uint32(record)}, true
}

// latest is find, including notes that are not written yet.
func (s *Store) latest(hash uint64, b *Buffer) (at slot, text []byte) {
	if s.unsaved.Load() {
		s.mu.Lock()
		n := s.notes[hash]
		s.mu.Unlock()
		if n != nil {
			return n.slot, n.text(b)
		}
	}
	return s.find(hash, b)
}
