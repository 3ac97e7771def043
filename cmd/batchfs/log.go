package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"sync"
	"time"
	"unicode"

	"golang.org/x/sys/unix"
)

// A mountLog is where a mount's log and its messages to the user go. Neither ever blocks.
type mountLog struct {
	*slog.Logger
	file    *logFile    // nil: standard error
	writer  *lineWriter // of the log
	console *lineWriter // for messages to the user; the same as writer if the log goes to standard error
	watched bool        // the log goes to a terminal as text, so that messages need no lines of it
	talking bool        // there is a terminal for messages
	strict  bool        // standard error holds nothing but JSON
}

// openLog opens the log of a mount. close ends it.
func (c *console) openLog(o logOptions) (*mountLog, error) {
	handler := func(to io.Writer) slog.Handler {
		settings := &slog.HandlerOptions{Level: o.level}
		if o.asJSON {
			return slog.NewJSONHandler(to, settings)
		}
		return slog.NewTextHandler(to, settings)
	}
	lost := func(n int64) []byte {
		var line bytes.Buffer
		slog.New(handler(&line)).Error("log lines were dropped, since nothing read them", "lines", n)
		return line.Bytes()
	}
	l := &mountLog{console: newLineWriter(c.err, lost), talking: interactive(c.err), strict: o.asJSON && o.file == ""}
	l.writer, l.watched = l.console, l.talking && !o.asJSON && o.file == ""
	if o.file != "" {
		var err error
		if l.file, err = openLogFile(o.file); err != nil {
			return nil, hint(err, "choose a file that can be written to: --log-file FILE")
		}
		l.writer = newLineWriter(l.file, lost)
	}
	l.Logger = slog.New(limitLog(handler(l.writer)))
	return l, nil
}

// reopen reopens the log file, if there is one, for later lines.
func (l *mountLog) reopen() {
	if l.file == nil {
		return
	}
	if err := l.file.reopen(); err != nil {
		l.Error("cannot reopen the log file; the old one stays in use", "error", err)
	}
}

// close writes the rest of the log if possible.
func (l *mountLog) close() {
	l.console.close()
	l.writer.close()
}

// say prints a message to the user only.
func (l *mountLog) say(format string, args ...any) { (&console{err: l.console}).say(format, args...) }

// state tells the user what is mounted, wherever messages go, and a log in a file too.
func (l *mountLog) state(message string) {
	if !l.strict {
		l.say("%s", message)
	}
	if l.strict || l.file != nil {
		l.Info(message)
	}
}

// tell tells the user something about a running mount: as a log line, since a program may
// read the log, and at a terminal like any other message.
func (l *mountLog) tell(message, hint string) {
	if l.watched || l.file != nil && l.talking {
		l.say("%s", message)
		if hint != "" {
			l.say("hint: %s", hint)
		}
	}
	switch {
	case l.watched:
	case hint != "":
		l.Warn(message, "hint", hint)
	default:
		l.Warn(message)
	}
}

// A lineWriter writes lines in the background: logging never waits for a disk that hangs, a
// stopped terminal or a pipe that nothing reads. Lines that do not fit into the buffer are
// dropped; the next line written is preceded by the number of lost lines. Write errors are
// not reported, since this is where they would go.
type lineWriter struct {
	to   io.Writer
	lost func(n int64) []byte // returns a line that reports n lost lines
	idle chan struct{}        // closed when everything is written after close

	mu      sync.Mutex
	lines   chan []byte
	closed  bool
	waiting int   // bytes
	dropped int64 // lines
}

const maxLogBytes = 1 << 20 // the most that waits to be written

func newLineWriter(to io.Writer, lost func(n int64) []byte) *lineWriter {
	const shortest = 32 // bytes in a line, which begins with the time
	w := &lineWriter{to: to, lost: lost, lines: make(chan []byte, maxLogBytes/shortest), idle: make(chan struct{})}
	go w.run()
	return w
}

// Write queues one line, or drops it. It never fails.
func (w *lineWriter) Write(line []byte) (int, error) {
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

func (w *lineWriter) run() {
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
		if _, err := w.to.Write(line); err != nil { // reported with the next line that succeeds
			w.mu.Lock()
			w.dropped += dropped + 1
			w.mu.Unlock()
		}
	}
}

// close waits until everything is written, but not for long. Later lines are dropped.
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

// limitLog keeps a log readable when the same thing happens thousands of times a second.
// Records that differ only in numbers and in the batch they name form a class. In each
// interval, at most limitBurst records of a class are logged; at its end the last suppressed
// one is logged, with their number. Records that name a file have no class: each gets its own
// line, and the packages below repeat none. Nor have those of loggers derived from this one.
func limitLog(next slog.Handler) slog.Handler {
	return &limitHandler{Handler: next, classes: map[string]*class{}}
}

const (
	limitBurst   = 10               // records per class
	limitWhile   = 10 * time.Second // the interval
	limitClasses = 10_000           // classes tracked at once
)

type limitHandler struct {
	slog.Handler
	mu      sync.Mutex
	classes map[string]*class
}

// A class counts the records of one kind in the current interval.
type class struct {
	seen int
	last slog.Record
}

// Handle logs a record or, beyond limitBurst, counts it. It holds the lock while the next handler writes, which never
// waits.
func (h *limitHandler) Handle(ctx context.Context, r slog.Record) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	key, limited := classOf(r)
	c := h.classes[key]
	if limited && c == nil && len(h.classes) < limitClasses {
		c = &class{}
		h.classes[key] = c
		time.AfterFunc(limitWhile, func() { h.endWhile(key) })
	}
	if limited && c != nil {
		if c.seen++; c.seen > limitBurst {
			c.last = r.Clone()
			return nil
		}
	}
	return h.Handler.Handle(ctx, r)
}

// endWhile ends the interval of a class and logs how many records were suppressed.
func (h *limitHandler) endWhile(key string) {
	h.mu.Lock()
	c := h.classes[key]
	delete(h.classes, key)
	h.mu.Unlock()
	if more := c.seen - limitBurst; more > 0 {
		c.last.AddAttrs(slog.Int("times", more))
		_ = h.Handler.Handle(context.Background(), c.last)
	}
}

// classOf returns the key of a record's class.
func classOf(r slog.Record) (key string, limited bool) {
	key, limited = r.Message, true
	r.Attrs(func(a slog.Attr) bool {
		switch a.Key {
		case "reason", "error":
			key += " " + a.Value.String()
		case "path":
			limited = false
		}
		return limited
	})
	return strings.Map(func(r rune) rune {
		if unicode.IsDigit(r) {
			return -1
		}
		return r
	}, fmt.Sprint(r.Level, " ", key)), limited
}
