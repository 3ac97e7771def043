package main

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"
	"unicode"
)

// limitLog keeps a log readable when the same event happens thousands of times a second. Records
// that differ only in numbers and in the batch they name form a class. In each interval, at most
// limitBurst records of a class are logged; at its end the last suppressed one is logged, with
// their number. Records that name a file have no class: each gets its own line, and the packages
// below repeat none. Records of loggers derived from this one have no class either.
func limitLog(next slog.Handler) slog.Handler {
	return &logLimiter{Handler: next, classes: map[string]*logClass{}}
}

const (
	limitBurst   = 10               // records per class
	limitWhile   = 10 * time.Second // length of an interval
	limitClasses = 10_000           // classes tracked at once
)

type logLimiter struct {
	slog.Handler
	mu      sync.Mutex
	classes map[string]*logClass
}

// A logClass counts the records of one kind in the current interval.
type logClass struct {
	seen int
	last slog.Record
}

// Handle logs a record or, beyond limitBurst, counts it. It holds the lock while the next handler
// writes, which never waits.
func (h *logLimiter) Handle(ctx context.Context, r slog.Record) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	key, limited := classOf(r)
	c := h.classes[key]
	if limited && c == nil && len(h.classes) < limitClasses {
		c = &logClass{}
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
func (h *logLimiter) endWhile(key string) {
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
