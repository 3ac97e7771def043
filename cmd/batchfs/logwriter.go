package main

import (
	"bytes"
	"io"
	"sync"
	"time"
)

// A logWriter writes lines in the background: logging never waits for a disk that hangs, a
// stopped terminal or a pipe that nothing reads. Lines that do not fit into the buffer are
// dropped; the next line written is preceded by the number of lost lines. Write errors are
// not reported, since this is where they would go.
type logWriter struct {
	to   io.Writer
	lost func(n int64) []byte
	idle chan struct{} // closed when everything is written after close

	mu      sync.Mutex
	lines   chan []byte
	closed  bool
	waiting int   // bytes that wait to be written
	dropped int64 // lines dropped since the last one that was written
}

const maxLogBytes = 1 << 20 // most bytes that wait to be written

// newLogWriter returns a logWriter. lost makes a line that reports n lost ones.
func newLogWriter(to io.Writer, lost func(n int64) []byte) *logWriter {
	const shortest = 32 // fewest bytes in a line, which begins with the time
	w := &logWriter{to: to, lost: lost, lines: make(chan []byte, maxLogBytes/shortest), idle: make(chan struct{})}
	go w.run()
	return w
}

// Write queues one line, or drops it. It never fails.
func (w *logWriter) Write(line []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed || w.waiting+len(line) > maxLogBytes || len(w.lines) == cap(w.lines) {
		w.dropped++
		return len(line), nil
	}
	w.waiting += len(line)
	w.lines <- bytes.Clone(line)
	return len(line), nil
}

func (w *logWriter) run() {
	defer close(w.idle)
	for line := range w.lines {
		w.mu.Lock()
		dropped := w.dropped
		w.dropped = 0
		w.waiting -= len(line)
		w.mu.Unlock()
		if dropped > 0 {
			line = append(w.lost(dropped), line...)
		}
		if _, err := w.to.Write(line); err != nil { // reported with the next line that can be written
			w.mu.Lock()
			w.dropped += dropped + 1
			w.mu.Unlock()
		}
	}
}

// close waits until everything is written, but not for long. Later lines are dropped.
func (w *logWriter) close() {
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
