package main

import (
	"io"
	"log/slog"
	"os"
)

// openLog makes the logger; close ends its file, where it has one.
func (c *console) openLog(o logOptions) (log *slog.Logger, file *os.File, err error) {
	var to io.Writer = c.err
	if o.file != "" {
		if file, err = os.OpenFile(o.file, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644); err != nil {
			return nil, nil, hint(err, "choose a file that can be written: --log-file FILE")
		}
		to = file
	}
	settings := &slog.HandlerOptions{Level: o.level}
	if o.asJSON {
		return slog.New(slog.NewJSONHandler(to, settings)), file, nil
	}
	return slog.New(slog.NewTextHandler(to, settings)), file, nil
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
		if r.watched || r.logFile != nil && interactive(c.err) {
			c.say("%s", message)
			if hint != "" {
				c.say("hint: %s", hint)
			}
		}
		switch log := r.engine.Logger; {
		case r.watched:
		case hint != "":
			log.Warn(message, "hint", hint)
		default:
			log.Warn(message)
		}
	}
}
