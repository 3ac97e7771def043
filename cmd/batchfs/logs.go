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
