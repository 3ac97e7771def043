package main

import (
	"bytes"
	"io"
	"log/slog"
)

// A mountLog is where a mount's log and its messages to the user go. Neither ever blocks.
type mountLog struct {
	*slog.Logger
	file    *logFile   // nil: standard error
	writer  *logWriter // of the log
	console *logWriter // for messages to the user; the same as writer if the log goes to standard error
	watched bool       // the log goes to a terminal as text, so that messages need no log lines of their own
	talking bool       // there is a terminal for messages
	strict  bool       // standard error holds nothing but JSON
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
	l := &mountLog{console: newLogWriter(c.err, lost), talking: interactive(c.err), strict: o.asJSON && o.file == ""}
	l.writer, l.watched = l.console, l.talking && !o.asJSON && o.file == ""
	if o.file != "" {
		var err error
		if l.file, err = openLogFile(o.file); err != nil {
			return nil, hint(err, "choose a file that can be written to: --log-file FILE")
		}
		l.writer = newLogWriter(l.file, lost)
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

// state tells the user what is mounted, wherever messages go, and a log file as well.
func (l *mountLog) state(message string) {
	if !l.strict {
		l.say("%s", message)
	}
	if l.strict || l.file != nil {
		l.Info(message)
	}
}

// announce tells the user something about a running mount: as a log line, since a program may
// read the log, and at a terminal like any other message.
func (l *mountLog) announce(message, hint string) {
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
