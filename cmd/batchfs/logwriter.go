package main

import (
	"io"
	"os"
	"sync"
	"time"
)

// A lineWriter writes lines in the background: those who log never wait for a disk
// that hangs, a terminal that is stopped or a pipe that nobody reads. Lines for which
// there is no room are dropped, and the next one that gets through is preceded by how
// many that were. What cannot be written is lost; nobody is told, as this is where
// they would be.
type lineWriter struct {
	mu      sync.Mutex
	to      io.Writer
	lost    func(n int) []byte // says that so many were dropped
	lines   []logLine          // that wait
	bytes   int
	dropped int
	closed  bool
	more    sync.Cond     // there are lines, or it is closed
	idle    chan struct{} // closed when all has been written after close
}

// A logLine goes where the log went when it was logged.
type logLine struct {
	text []byte
	to   io.Writer
}

// maxLogBytes bounds the lines that wait to be written.
const maxLogBytes = 1 << 20

func newLineWriter(to io.Writer, lost func(n int) []byte) *lineWriter {
	w := &lineWriter{to: to, lost: lost, idle: make(chan struct{})}
	w.more.L = &w.mu
	go w.run()
	return w
}

// Write takes one line, or drops it. It never fails.
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
		if err != nil { // for the next one to say, if there ever is one
			w.dropped += dropped + 1
		}
		w.mu.Unlock()
	}
}

// turn has later lines written elsewhere, and returns where they went before.
func (w *lineWriter) turn(to io.Writer) io.Writer {
	w.mu.Lock()
	defer w.mu.Unlock()
	before := w.to
	w.to = to
	return before
}

// close waits until all has been written, but not for long.
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

// A logFile is the file of --log-file, which a program that rotates logs may rename.
type logFile struct {
	name   string
	writer *lineWriter

	mu   sync.Mutex
	file *os.File
	also []int // descriptors that are the file too: a daemon's standard output and error
}

func openLogFile(name string) (*os.File, error) {
	return os.OpenFile(name, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
}

// reopen begins a new file where the old one was renamed. The old one stays in use
// where that fails.
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
	// Lines that wait still go to the old one, which the collector closes when nobody
	// has it.
	f.file = file
	return nil
}

// follow makes descriptors the file too, now and when it is opened anew.
func (f *logFile) follow(fds ...int) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.also = fds
	return duplicate(f.file, fds)
}
