package main

import (
	"bytes"
	"io"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// A lineWriter writes lines in the background: logging never waits for a disk that hangs, a
// stopped terminal or a pipe that nothing reads. Lines that do not fit into the buffer are
// dropped; the next line written is preceded by the number of lost lines. Write errors are
// not reported, since this is where they would go.
type lineWriter struct {
	to   io.Writer
	lost func(n int64) []byte // returns a line that reports n lost lines

	mu      sync.RWMutex // held for writing to close lines
	lines   chan logItem
	closed  bool
	bytes   atomic.Int64  // waiting
	dropped atomic.Int64  // lines
	idle    chan struct{} // closed when everything is written after close
}

// A logItem is a line to write, or something to do when all earlier lines are written.
type logItem struct {
	line []byte
	do   func()
}

// maxLogBytes bounds what waits to be written. There is room for that many of even the
// shortest lines.
const (
	maxLogBytes  = 1 << 20
	maxLogItems  = maxLogBytes / shortestLine
	shortestLine = 32 // they begin with the time
)

func newLineWriter(to io.Writer, lost func(n int64) []byte) *lineWriter {
	w := &lineWriter{to: to, lost: lost, lines: make(chan logItem, maxLogItems), idle: make(chan struct{})}
	go w.run()
	return w
}

// Write queues one line, or drops it. It never fails.
func (w *lineWriter) Write(line []byte) (int, error) {
	w.mu.RLock()
	defer w.mu.RUnlock()
	size := int64(len(line))
	if w.bytes.Add(size) <= maxLogBytes && !w.closed {
		select {
		case w.lines <- logItem{line: bytes.Clone(line)}:
			return len(line), nil
		default:
		}
	}
	w.bytes.Add(-size)
	w.dropped.Add(1)
	return len(line), nil
}

func (w *lineWriter) run() {
	defer close(w.idle)
	for item := range w.lines {
		if item.do != nil {
			item.do()
			continue
		}
		text, dropped := item.line, w.dropped.Swap(0)
		if dropped > 0 {
			text = append(w.lost(dropped), text...)
		}
		if _, err := w.to.Write(text); err != nil { // reported with the next line that succeeds
			w.dropped.Add(dropped + 1)
		}
		w.bytes.Add(-int64(len(item.line)))
	}
}

// after does something when all earlier lines are written.
func (w *lineWriter) after(do func()) {
	w.mu.RLock()
	defer w.mu.RUnlock()
	if !w.closed {
		w.lines <- logItem{do: do}
	}
}

// close waits until everything is written, but not for long.
func (w *lineWriter) close() {
	const long = time.Second
	w.mu.Lock()
	if !w.closed {
		close(w.lines)
	}
	w.closed = true
	w.mu.Unlock()
	select {
	case <-w.idle:
	case <-time.After(long):
	}
}

// A logFile is the file of --log-file. Log rotation may rename it.
type logFile struct {
	*os.File
	name string // absolute, since a daemon leaves its directory

	mu   sync.Mutex
	also []int // descriptors that also refer to the file: a daemon's standard output and error
}

func openLogFile(name string) (*logFile, error) {
	file, err := os.OpenFile(name, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	return &logFile{File: file, name: absolute(name)}, err
}

// reopen makes the descriptors refer to a new file after the old one was renamed. If that
// fails, the old one stays in use.
func (f *logFile) reopen() error {
	file, err := openLogFile(f.name)
	if err != nil {
		return err
	}
	defer file.Close()
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := unix.Dup3(int(file.Fd()), int(f.Fd()), unix.O_CLOEXEC); err != nil {
		return err
	}
	return duplicate(f.File, f.also)
}

// follow makes descriptors refer to the file, now and after each reopen.
func (f *logFile) follow(fds ...int) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.also = fds
	return duplicate(f.File, fds)
}

// duplicate makes descriptors of this process refer to a file.
func duplicate(file *os.File, fds []int) error {
	for _, fd := range fds {
		if err := unix.Dup3(int(file.Fd()), fd, 0); err != nil {
			return err
		}
	}
	return nil
}
