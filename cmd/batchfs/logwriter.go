package main

import (
	"io"
	"os"
	"sync"
	"time"
)

// A lineWriter writes lines in the background: logging never waits for a disk that hangs, a
// stopped terminal or a pipe that nothing reads. Lines that do not fit into the buffer are
// dropped; the next line written is preceded by the number of lost lines. Write errors are
// not reported, since this is where they would go.
type lineWriter struct {
	mu      sync.Mutex
	to      io.Writer
	lost    func(n int) []byte // returns a line that reports n lost lines
	lines   []logLine          // waiting to be written
	bytes   int
	dropped int
	closed  bool
	more    sync.Cond     // lines is not empty, or closed is set
	idle    chan struct{} // closed when everything is written after close
}

// A logLine goes to the destination that was current when it was logged.
type logLine struct {
	text []byte
	to   io.Writer
}

// maxLogBytes bounds the lines waiting to be written.
const maxLogBytes = 1 << 20

func newLineWriter(to io.Writer, lost func(n int) []byte) *lineWriter {
	w := &lineWriter{to: to, lost: lost, idle: make(chan struct{})}
	w.more.L = &w.mu
	go w.run()
	return w
}

// Write queues one line, or drops it. It never fails.
func (w *lineWriter) Write(line []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed || w.bytes+len(line) > maxLogBytes {
		w.dropped++
		return len(line), nil
	}
	w.lines = append(w.lines, logLine{append([]byte(nil), line...), w.to})
	w.bytes += len(line)
	w.more.Signal()
	return len(line), nil
}

func (w *lineWriter) run() {
	defer close(w.idle)
	for {
		w.mu.Lock()
		for len(w.lines) == 0 && !w.closed {
			w.more.Wait()
		}
		if len(w.lines) == 0 {
			w.mu.Unlock()
			return
		}
		line, dropped := w.lines[0], w.dropped
		w.lines[0] = logLine{}
		w.lines = w.lines[1:]
		w.dropped = 0
		w.mu.Unlock()
		text := line.text
		if dropped > 0 {
			text = append(w.lost(dropped), text...)
		}
		_, err := line.to.Write(text)
		w.mu.Lock()
		w.bytes -= len(line.text)
		if err != nil { // reported with the next line that succeeds
			w.dropped += dropped + 1
		}
		w.mu.Unlock()
	}
}

// turn redirects later lines to another writer and returns the previous one.
func (w *lineWriter) turn(to io.Writer) io.Writer {
	w.mu.Lock()
	defer w.mu.Unlock()
	before := w.to
	w.to = to
	return before
}

// close waits until everything is written, but not for long.
func (w *lineWriter) close() {
	const long = time.Second
	w.mu.Lock()
	w.closed = true
	w.more.Signal()
	w.mu.Unlock()
	select {
	case <-w.idle:
	case <-time.After(long):
	}
}

// A logFile is the file of --log-file. Log rotation may rename it.
type logFile struct {
	name   string
	writer *lineWriter

	mu   sync.Mutex
	file *os.File
	also []int // descriptors that also refer to the file: a daemon's standard output and error
}

func openLogFile(name string) (*os.File, error) {
	return os.OpenFile(name, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
}

// reopen creates a new file after the old one was renamed. If that fails, the old one stays
// in use.
func (f *logFile) reopen() error {
	file, err := openLogFile(f.name)
	if err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := duplicate(file, f.also); err != nil {
		return err
	}
	f.writer.turn(file)
	// Queued lines still go to the old file. The garbage collector closes it when nothing
	// refers to it.
	f.file = file
	return nil
}

// follow makes descriptors refer to the file, now and after each reopen.
func (f *logFile) follow(fds ...int) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.also = fds
	return duplicate(f.file, fds)
}
