package main

import (
	"context"
	"log/slog"
	"regexp"
	"sync"
	"time"
)

// limitLog keeps a log readable when the same thing happens thousands of times a second.
// Records that differ only in numbers and in the batch they name form a class. In each
// interval, at most limitBurst records of a class are logged; at its end the last suppressed
// one is logged, with their number. Bad files differ by path, so each gets its own line.
func limitLog(next slog.Handler) slog.Handler {
	return &limitHandler{Handler: next, limits: &limits{classes: map[string]*class{}}}
}

const (
	limitBurst   = 10               // records per class
	limitWhile   = 10 * time.Second // the interval
	limitClasses = 10_000           // classes tracked at once
)

type limitHandler struct {
	slog.Handler
	limits *limits
}

type limits struct {
	mu      sync.Mutex
	classes map[string]*class
}

// A class counts the records of one kind in the current interval.
type class struct {
	logged, more int
	last         slog.Record
}

func (h *limitHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &limitHandler{h.Handler.WithAttrs(attrs), h.limits}
}

func (h *limitHandler) WithGroup(name string) slog.Handler {
	return &limitHandler{h.Handler.WithGroup(name), h.limits}
}

func (h *limitHandler) Handle(ctx context.Context, r slog.Record) error {
	if !h.admit(r) {
		return nil
	}
	return h.Handler.Handle(ctx, r)
}

// admit counts a record and reports whether to log it now.
func (h *limitHandler) admit(r slog.Record) bool {
	key, l := classOf(r), h.limits
	l.mu.Lock()
	defer l.mu.Unlock()
	c := l.classes[key]
	switch {
	case c == nil && len(l.classes) >= limitClasses:
		return true
	case c == nil:
		c = &class{}
		l.classes[key] = c
		time.AfterFunc(limitWhile, func() { h.endWhile(key) })
	}
	if c.logged < limitBurst {
		c.logged++
		return true
	}
	c.more, c.last = c.more+1, r.Clone()
	return false
}

// endWhile logs the suppressed records of a class, of which only the number is logged from
// then on. A class without any is forgotten.
func (h *limitHandler) endWhile(key string) {
	l := h.limits
	l.mu.Lock()
	c := l.classes[key]
	more, last := c.more, c.last
	if c.logged, c.more = limitBurst, 0; more == 0 {
		delete(l.classes, key)
	}
	l.mu.Unlock()
	if more > 0 {
		time.AfterFunc(limitWhile, func() { h.endWhile(key) })
		last.AddAttrs(slog.Int("times", more))
		_ = h.Handler.Handle(context.Background(), last)
	}
}

var digits = regexp.MustCompile(`\d+`)

// classOf returns the key of a record's class.
func classOf(r slog.Record) string {
	key := r.Level.String() + " " + digits.ReplaceAllString(r.Message, "")
	r.Attrs(func(a slog.Attr) bool {
		switch a.Key {
		case "reason", "error":
			key += " " + digits.ReplaceAllString(a.Value.String(), "")
		case "path":
			key += " " + a.Value.String()
		}
		return true
	})
	return key
}
