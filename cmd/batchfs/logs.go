package main

import (
	"bytes"
	"io"
	"log/slog"
	"os"

	"golang.org/x/sys/unix"
)

// A mountLog is where a mount's log and its messages to the user go.
type mountLog struct {
	*slog.Logger
	file    *logFile    // nil: standard error
	writer  *lineWriter // of the log
	console *lineWriter // for messages to the user; the same as writer if the log goes to standard error
}

// openLog opens the log of a mount. Logging never blocks. close ends it.
func (c *console) openLog(o logOptions) (*mountLog, error) {
	lost := func(n int) []byte { return lostLines(n, o) }
	l := &mountLog{console: newLineWriter(c.err, lost)}
	l.writer = l.console
	if o.file != "" {
		file, err := openLogFile(o.file)
		if err != nil {
			return nil, hint(err, "choose a file that can be written: --log-file FILE")
		}
		l.writer = newLineWriter(file, lost)
		l.file = &logFile{name: absolute(o.file), writer: l.writer, file: file} // absolute, since a daemon leaves its directory
	}
	l.Logger = slog.New(limitLog(logHandler(l.writer, o)))
	return l, nil
}

// lostLines returns a log line that counts dropped lines.
func lostLines(n int, o logOptions) []byte {
	var line bytes.Buffer
	slog.New(logHandler(&line, o)).Error("lines of the log were dropped, as nobody took them", "lines", n)
	return line.Bytes()
}

func logHandler(to io.Writer, o logOptions) slog.Handler {
	settings := &slog.HandlerOptions{Level: o.level}
	if o.asJSON {
		return slog.NewJSONHandler(to, settings)
	}
	return slog.NewTextHandler(to, settings)
}

// reopen reopens the log file, if there is one.
func (l *mountLog) reopen() {
	if l.file == nil {
		return
	}
	if err := l.file.reopen(); err != nil {
		l.Error("the log file cannot be opened again, the old one stays in use", "error", err)
	}
}

// close writes the rest of the log if possible.
func (l *mountLog) close() {
	if l.console != l.writer {
		l.console.close()
	}
	l.writer.close()
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

// watched reports that the log goes to a terminal as text. The mount's messages to its user
// then read like any other message. Otherwise they are log lines, since a program may read
// the log; a user at a terminal whose log goes to a file gets both.
func (c *console) watched(o logOptions) bool {
	return o.file == "" && !o.asJSON && interactive(c.err)
}

// tell returns a function that tells the user something about a running mount.
func (c *console) tell(r mountRequest) func(message, hint string) {
	return func(message, hint string) {
		if r.watched || r.log.file != nil && interactive(c.err) {
			spoken := &console{err: r.log.console}
			spoken.say("%s", message)
			if hint != "" {
				spoken.say("hint: %s", hint)
			}
		}
		switch {
		case r.watched:
		case hint != "":
			r.log.Warn(message, "hint", hint)
		default:
			r.log.Warn(message)
		}
	}
}
