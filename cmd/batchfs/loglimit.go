package main

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

// limitLog keeps a log readable when the same event happens thousands of times a second. Records
// with the same message form a class. In each interval, at most limitBurst records of a class are
// logged; at its end the last suppressed one is logged, with their number. Records that name a file
// have no class: each gets its own line, and the packages below repeat none. Records of loggers
// derived from this one have no class either.
func limitLog(next slog.Handler) slog.Handler {
	return &logLimiter{Handler: next, classes: map[string]*logClass{}}
}

const (
	limitBurst = 10               // records per class
	limitWhile = 10 * time.Second // length of an interval
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
	limited := true
	r.Attrs(func(a slog.Attr) bool {
		limited = a.Key != "path"
		return limited
	})
	if !limited {
		return h.Handler.Handle(ctx, r)
	}
	key := r.Message
	c := h.classes[key]
	if c == nil {
		c = &logClass{}
		h.classes[key] = c
		time.AfterFunc(limitWhile, func() { h.endWhile(key) })
	}
	if c.seen++; c.seen > limitBurst {
		c.last = r.Clone()
		return nil
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
