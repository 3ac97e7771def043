package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

// A figure is something that turns measure, with its unit in rows and how many of these are 1.
type figure struct {
	name, unit string
	scale      float64
}

// The figures of many contenders; others have figures of their own.
var (
	rate = figure{"rate", "images/s", 1}
	cost = figure{"cost", "us", 1e6}             // processor time of the daemon for an image
	peak = figure{"peak", "MiB", 1. / (1 << 20)} // memory of the daemon so far, with shared pages
	slow = figure{"slow", "ms", 1e3}             // 99th percentile of opening and reading a batch so far
)

// figures are what one turn measured.
type figures map[figure]float64

// A turn measures once.
type turn func(ctx context.Context) (figures, error)

// perSecond is a turn of work on n images.
func perSecond(n int, work func(ctx context.Context) error) turn {
	return func(ctx context.Context) (figures, error) {
		began := time.Now()
		err := work(ctx)
		return figures{rate: float64(n) / time.Since(began).Seconds()}, err
	}
}

// A contender takes turns with others.
type contender struct {
	// start gets it ready for its turns. What has to be ended after them, it tells stage.later.
	start func(ctx context.Context) (turn, error)
	// optional contenders may fail: rows that need one of them say why instead.
	optional bool
}

// ready is a contender that has nothing to get ready.
func ready(t turn) contender {
	return contender{start: func(context.Context) (turn, error) { return t, nil }}
}

// before is a contender that does something first, whenever it starts or takes a turn.
func (c contender) before(do func(ctx context.Context) error) contender {
	return c.within(func(ctx context.Context, work func() error) error {
		if err := do(ctx); err != nil {
			return err
		}
		return work()
	})
}

// within is a contender that starts and takes its turns inside of something.
func (c contender) within(something func(ctx context.Context, work func() error) error) contender {
	start := c.start
	c.start = func(ctx context.Context) (turn, error) {
		var inner turn
		err := something(ctx, func() (err error) { inner, err = start(ctx); return err })
		return func(ctx context.Context) (f figures, err error) {
			err = something(ctx, func() (err error) { f, err = inner(ctx); return err })
			return f, err
		}, err
	}
	return c
}

// A contest lets contenders take turns, so that a slowdown of the machine affects all of them.
type contest struct {
	what       string // for the progress
	contenders []contender
	rounds     int // as many as -rounds says if 0
	rows       func(r results) []row
}

// A stage is where contests take place.
type stage struct {
	rounds   int            // how often each ratio is measured; the median counts
	ends     []func() error // what is left to end
	progress progress
}

// later has something ended after the contest that has begun, or else after the scenario.
func (s *stage) later(end func() error) { s.ends = append(s.ends, end) }

// end ends what came after the first n, the latest first.
func (s *stage) end(n int) (err error) {
	for _, end := range slices.Backward(s.ends[n:]) {
		err = errors.Join(err, end())
	}
	s.ends = s.ends[:n]
	return err
}

// hold holds a contest and returns its rows.
func (s *stage) hold(ctx context.Context, c contest) (rows []row, err error) {
	n := len(s.ends)
	r, err := s.takeTurns(ctx, c)
	if err == nil {
		rows = c.rows(r)
	}
	if err = errors.Join(err, s.end(n)); err != nil {
		err = fmt.Errorf("%s: %w", c.what, err)
	}
	return rows, err
}

func (s *stage) takeTurns(ctx context.Context, c contest) (r results, err error) {
	turns := make([]turn, len(c.contenders))
	for i, one := range c.contenders {
		s.progress.step(c.what+", getting ready", i, len(turns))
		t, err := one.start(ctx)
		if err != nil && (!one.optional || ctx.Err() != nil) {
			return r, err
		}
		if err == nil {
			turns[i] = t
		}
		r = append(r, result{missing: err})
	}
	rounds := cmp.Or(c.rounds, s.rounds)
	for round := range rounds {
		s.progress.step(c.what, round, rounds)
		for k := range turns { // who goes first alternates
			i := (k + round) % len(turns)
			if turns[i] == nil {
				continue
			}
			f, err := turns[i](ctx)
			if err != nil && c.contenders[i].optional && ctx.Err() == nil {
				r[i].missing, turns[i] = err, nil
				continue
			}
			if err != nil {
				return r, err
			}
			r[i].rounds = append(r[i].rounds, f)
		}
	}
	return r, nil
}
