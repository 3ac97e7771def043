package engine

import (
	"encoding/json"
	"errors"
	"sync"
	"time"
)

var (
	// ErrBad means that a batch holds a sample that cannot be read.
	ErrBad = errors.New("bad sample")
	// ErrNoMemory means that the memory limit leaves no room for the batch.
	ErrNoMemory = errors.New("no memory left under the limit")
	// ErrTooBig means that the batch would take more bytes than a file can have.
	ErrTooBig = errors.New("the batch is larger than a file can be")
	// ErrNotExist means that there is no such batch.
	ErrNotExist = errors.New("no such batch")
	// ErrClosed means that the engine is shutting down.
	ErrClosed = errors.New("engine closed")

	// errDropped ends a prefetched batch that has to give way; nobody waits for it.
	errDropped = errors.New("prefetched batch dropped")
)

// maxErrorLines bounds errors.jsonl: a dataset of a million bad files must not
// fill the memory with their names.
const maxErrorLines = 100_000

// errorLog is errors.jsonl: one line a bad file, in the order they were found.
type errorLog struct {
	mu    sync.Mutex
	lines []byte
	count int64
}

type errorLine struct {
	Time   time.Time `json:"time"`
	Path   string    `json:"path"`
	ID     int64     `json:"id"`
	Reason string    `json:"reason"`
}

func (l *errorLog) add(line errorLine) {
	text, err := json.Marshal(line)
	if err != nil { // a year beyond 9999
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.count++
	if l.count <= maxErrorLines {
		l.lines = append(append(l.lines, text...), '\n')
	}
}

func (l *errorLog) bytes() []byte {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]byte(nil), l.lines...)
}

func (l *errorLog) total() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.count
}
