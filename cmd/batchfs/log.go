package main

import (
	"bytes"
	"context"
	"io"
	"log/slog"
)

// A mountLog is where a mount's log and its messages to the user go. Neither ever blocks.
type mountLog struct {
	*slog.Logger
	file    *logFile   // nil: standard error
	writer  *logWriter // of the log
	console *logWriter // for messages to the user; the same as writer if the log goes to standard error
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
	l := &mountLog{console: newLogWriter(c.err, lost), strict: o.asJSON && o.file == ""}
	l.writer = l.console
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

// tell tells the user something about a mount, and what to do about it, if anything: as messages
// or, if standard error holds nothing but JSON, in the log. A log file has it, too.
func (l *mountLog) tell(level slog.Level, message, hint string) {
	if !l.strict {
		to := &console{err: l.console}
		to.say("%s", message)
		if hint != "" {
			to.say("hint: %s", hint)
		}
	}
	if l.strict || l.file != nil {
		args := []any{"hint", hint}
		if hint == "" {
			args = nil
		}
		l.Log(context.Background(), level, message, args...)
	}
}

// warn is tell for what may be wrong.
func (l *mountLog) warn(message, hint string) { l.tell(slog.LevelWarn, message, hint) }
