package main

import (
	"bytes"
	"io"
	"log/slog"
	"os"

	"golang.org/x/sys/unix"
)

// A mountLog is where a mount's log goes, and its user's messages.
type mountLog struct {
	*slog.Logger
	file    *logFile    // nil: standard error
	writer  *lineWriter // of the log
	console *lineWriter // of what is said to a person; the same where that is standard error
}

// openLog makes the log of a mount, in which nothing ever waits. close ends it.
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
		l.file = &logFile{name: absolute(o.file), writer: l.writer, file: file} // a daemon leaves its directory
	}
	l.Logger = slog.New(limitLog(logHandler(l.writer, o)))
	return l, nil
}

// lostLines is the line that stands for lines that were dropped.
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

// reopen begins the log's file anew, where it has one.
func (l *mountLog) reopen() {
	if l.file == nil {
		return
	}
	if err := l.file.reopen(); err != nil {
		l.Error("the log file cannot be opened again, the old one stays in use", "error", err)
	}
}

// close writes what is left of the log, if that can be done.
func (l *mountLog) close() {
	if l.console != l.writer {
		l.console.close()
	}
	l.writer.close()
}

// duplicate makes descriptors of this process mean a file.
func duplicate(file *os.File, fds []int) error {
	for _, fd := range fds {
		if err := unix.Dup3(int(file.Fd()), fd, 0); err != nil {
			return err
		}
	}
	return nil
}

// watched says that the log goes to a person at a terminal, as text: what a mount
// has to say to its user then reads like any other message. Else it is a line of
// the log, since a program may read that; a person who has sent the log to a file
// gets both.
func (c *console) watched(o logOptions) bool {
	return o.file == "" && !o.asJSON && interactive(c.err)
}

// tell says something about a mount that runs to whoever looks after it.
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
