package engine

import (
	"encoding/json"
	"errors"
	"sync"
	"time"

	"github.com/batchfs/batchfs/dataset"
)

var (
	// ErrBad means that a batch holds a sample that cannot be read.
	ErrBad = errors.New("bad sample")
	// ErrNoMemory means that the memory limit leaves no room for the batch, or that the
	// kernel refused the memory.
	ErrNoMemory = errors.New("out of memory")
	// ErrMachine means that storage, descriptors or batchfs itself failed. No file is at
	// fault, and the next Open tries the batch again.
	ErrMachine = errors.New("the machine failed")
	// ErrLeftBehind is returned by Close if reads hang in the kernel. The reads, the memory
	// they use and the dataset's descriptors stay until the reads return.
	ErrLeftBehind = errors.New("reads that hang in the kernel were left behind")
	// ErrTooBig means that the batch would exceed the maximum size of a file.
	ErrTooBig = errors.New("the batch is larger than a file can be")
	// ErrNotExist means that there is no such batch.
	ErrNotExist = errors.New("no such batch")
	// ErrClosed means that the engine is shutting down.
	ErrClosed = errors.New("engine closed")

	// errDropped ends the work for a batch that nothing waits for.
	errDropped = errors.New("batch dropped")
	// errNoRoom means that the memory limit leaves no room at the moment. A batch that an
	// Open waits for then waits for its turn. The error never reaches a reader.
	errNoRoom = errors.New("no room under the memory limit yet")
)

// maxErrorLines bounds errors.jsonl, so that the paths of a million bad files do not fill
// the memory.
const maxErrorLines = 100_000

// errorLog is errors.jsonl: one line per bad file, in the order of discovery.
type errorLog struct {
	mu    sync.Mutex
	lines []byte
	count int64
}

type errorLine struct {
	Time   time.Time `json:"time"`
	Path   string    `json:"path"`
	Bytes  string    `json:"path_bytes,omitempty"` // if the path is not UTF-8
	ID     int64     `json:"id"`
	Reason string    `json:"reason"`
}

func (l *errorLog) add(line errorLine, ledger *Ledger) {
	line.Bytes = dataset.PathBytes(line.Path)
	text, err := json.Marshal(line)
	if err != nil { // a year beyond 9999
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.count++
	if l.count <= maxErrorLines && ledger.reserve(useIndex, int64(len(text)+1)) {
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
