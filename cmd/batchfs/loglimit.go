package main

import (
	"context"
	"log/slog"
	"strings"
	"sync"
	"time"
	"unicode"
)

// limitLog keeps a log readable when the same thing happens thousands of times a second.
// Records that differ only in numbers and in the batch they name form a class. Per
// limitWhile, at most limitBurst records of a class are logged. At the end of the interval,
// the last suppressed record is logged with the number of suppressed records. Bad files are
// distinguished by path, so each gets its own line.
func limitLog(next slog.Handler) slog.Handler {
	return &limitHandler{next: next, limits: &limits{classes: map[string]*class{}}}
}

const (
	limitBurst   = 10               // records per class
	limitWhile   = 10 * time.Second // the interval
	limitClasses = 10_000           // classes tracked at once
)

type limitHandler struct {
	next   slog.Handler
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

func (h *limitHandler) Enabled(ctx context.Context, level slog.Level) bool {
	return h.next.Enabled(ctx, level)
}

func (h *limitHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &limitHandler{next: h.next.WithAttrs(attrs), limits: h.limits}
}

func (h *limitHandler) WithGroup(name string) slog.Handler {
	return &limitHandler{next: h.next.WithGroup(name), limits: h.limits}
}

func (h *limitHandler) Handle(ctx context.Context, r slog.Record) error {
	if !h.admit(r) {
		return nil
	}
	return h.next.Handle(ctx, r)
}

// admit counts a record and reports whether to log it now.
func (h *limitHandler) admit(r slog.Record) bool {
	key := classOf(r)
	l := h.limits
	l.mu.Lock()
	defer l.mu.Unlock()
	c := l.classes[key]
	if c == nil {
		if len(l.classes) >= limitClasses {
			return true
		}
		c = &class{}
		l.classes[key] = c
		time.AfterFunc(limitWhile, func() { h.endWhile(key) })
	}
	if c.logged < limitBurst {
		c.logged++
		return true
	}
	c.more++
	c.last = r.Clone()
	return false
}

// endWhile logs the suppressed records of a class. A class without any is forgotten.
func (h *limitHandler) endWhile(key string) {
	l := h.limits
	l.mu.Lock()
	c := l.classes[key]
	more, last := c.more, c.last
	if more == 0 {
		delete(l.classes, key)
	} else {
		// The class is still active: from now on log only its count.
		c.logged, c.more = limitBurst, 0
		time.AfterFunc(limitWhile, func() { h.endWhile(key) })
	}
	l.mu.Unlock()
	if more > 0 {
		last.AddAttrs(slog.Int("times", more))
		_ = h.next.Handle(context.Background(), last)
	}
}

// classOf returns the key of a record's class.
func classOf(r slog.Record) string {
	var key strings.Builder
	key.WriteString(r.Level.String())
	key.WriteByte(' ')
	key.WriteString(withoutNumbers(r.Message))
	r.Attrs(func(a slog.Attr) bool {
		switch a.Key {
		case "reason", "error":
			key.WriteByte(' ')
			key.WriteString(withoutNumbers(a.Value.String()))
		case "path":
			key.WriteByte(' ')
			key.WriteString(a.Value.String())
		}
		return true
	})
	return key.String()
}

func withoutNumbers(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsDigit(r) {
			return -1
		}
		return r
	}, s)
}
