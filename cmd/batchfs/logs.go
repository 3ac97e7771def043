package main

import (
	"bytes"
	"io"
	"log/slog"
)

// A mountLog is where a mount's log and its messages to the user go. Logging never blocks.
type mountLog struct {
	*slog.Logger
	file    *logFile    // nil: standard error
	writer  *lineWriter // of the log
	console *lineWriter // for messages to the user; the same as writer if the log goes to standard error
	watched bool        // the log goes to a terminal as text, so that messages need no lines of it
	talking bool        // there is a terminal for messages
}

// openLog opens the log of a mount. close ends it.
func (c *console) openLog(o logOptions) (*mountLog, error) {
	lost := func(n int64) []byte { return lostLines(n, o) }
	l := &mountLog{console: newLineWriter(c.err, lost), talking: interactive(c.err)}
	l.writer, l.watched = l.console, l.talking && !o.asJSON && o.file == ""
	if o.file != "" {
		var err error
		if l.file, err = openLogFile(o.file); err != nil {
			return nil, hint(err, "choose a file that can be written to: --log-file FILE")
		}
		l.writer = newLineWriter(l.file, lost)
	}
	l.Logger = slog.New(limitLog(logHandler(l.writer, o)))
	return l, nil
}

// lostLines returns a log line that counts dropped lines.
func lostLines(n int64, o logOptions) []byte {
	var line bytes.Buffer
	slog.New(logHandler(&line, o)).Error("log lines were dropped, since nothing read them", "lines", n)
	return line.Bytes()
}

func logHandler(to io.Writer, o logOptions) slog.Handler {
	settings := &slog.HandlerOptions{Level: o.level}
	if o.asJSON {
		return slog.NewJSONHandler(to, settings)
	}
	return slog.NewTextHandler(to, settings)
}

// reopen reopens the log file, if there is one, for later lines.
func (l *mountLog) reopen() {
	if l.file == nil {
		return
	}
	l.writer.after(func() {
		if err := l.file.reopen(); err != nil {
			l.Error("cannot reopen the log file; the old one stays in use", "error", err)
		}
	})
}

// close writes the rest of the log if possible.
func (l *mountLog) close() {
	if l.console != l.writer {
		l.console.close()
	}
	l.writer.close()
}

// tell tells the user something about a running mount: as a log line, since a program may
// read the log, and at a terminal like any other message.
func (l *mountLog) tell(message, hint string) {
	if l.watched || l.file != nil && l.talking {
		spoken := &console{err: l.console}
		spoken.say("%s", message)
		if hint != "" {
			spoken.say("hint: %s", hint)
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

// discardLog is for commands whose own output says everything.
func discardLog() *slog.Logger { return slog.New(slog.DiscardHandler) }
