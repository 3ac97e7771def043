package main

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/batchfs/batchfs/internal/throughput"
)

// A figure is something that turns measure. It has a unit for rows; scale is the factor from a
// measured value to that unit.
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
type turn func() figures

// perSecond is a turn of work on n images.
func perSecond(n int, work func()) turn {
	return func() figures {
		began := time.Now()
		work()
		return figures{rate: float64(n) / time.Since(began).Seconds()}
	}
}

// A contender takes turns with others.
type contender struct {
	// start gets it ready for its turns. It gives functions that end something after them to
	// bench.later.
	start func() turn
	// optional contenders may fail: rows that need one of them then show the reason.
	optional bool
}

// ready is a contender that needs no preparation.
func ready(t turn) contender { return contender{start: func() turn { return t }} }

// before is a contender that does something first, whenever it starts or takes a turn.
func (c contender) before(do func()) contender {
	return c.inside(func(work func()) { do(); work() })
}

// inside is a contender that starts and takes its turns inside of something.
func (c contender) inside(something func(work func())) contender {
	start := c.start
	c.start = func() turn {
		var inner turn
		something(func() { inner = start() })
		return func() (f figures) {
			something(func() { f = inner() })
			return f
		}
	}
	return c
}

// hold holds a contest of some rounds, by default as many as -rounds says. Contenders take turns,
// so that a slowdown of the machine affects all of them.
func (s *stage) hold(what string, rounds int, contenders ...contender) (r results) {
	err := s.within(func() {
		turns := make([]turn, len(contenders))
		r = make(results, len(contenders))
		attempt := func(i int, do func()) { // others go on without an optional contender
			err := catch(do)
			if !contenders[i].optional || s.ctx.Err() != nil {
				check(err)
			}
			r[i].missing = err
		}
		for i, one := range contenders {
			attempt(i, func() { turns[i] = one.start() })
		}
		rounds := cmp.Or(rounds, s.rounds)
		for round := range rounds {
			for k := range turns { // who goes first alternates
				i := (k + round) % len(turns)
				if r[i].missing == nil {
					attempt(i, func() { r[i].rounds = append(r[i].rounds, turns[i]()) })
				}
			}
		}
	})
	if err != nil {
		check(fmt.Errorf("%s: %w", what, err))
	}
	return r
}

// results are those of a contest, by contender.
type results []result

type result struct {
	rounds  []figures
	missing error // why it could not start, or go on
}

// of returns one figure of a contender, in the figure's unit.
func (r results) of(f figure, i int) (s series) {
	s.missing = r[i].missing
	for _, round := range r[i].rounds {
		s.values = append(s.values, f.scale*round[f])
	}
	return s
}

// fastest returns which of some contenders has the most images per second.
func (r results) fastest(some []int) int {
	return slices.MaxFunc(some, func(i, k int) int {
		return cmp.Compare(r.of(rate, i).median(), r.of(rate, k).median())
	})
}

// row is a row of one figure.
func (r results) row(what string, f figure, i int) row { return measured(what, f.unit, r.of(f, i)) }

// ratio is a row of one figure of two contenders.
func (r results) ratio(what string, f figure, i, j int) row {
	return ratio(what, f.unit, r.of(f, i), r.of(f, j))
}

// A series has a value for each round, or none and the reason.
type series struct {
	values  []float64
	missing error
}

func numbers(x ...float64) series { return series{values: x} }

// with combines values of the same round.
func (s series) with(t series, f func(x, y float64) float64) series {
	out := series{missing: cmp.Or(s.missing, t.missing)}
	if out.missing == nil {
		for i, x := range s.values {
			out.values = append(out.values, f(x, t.values[i]))
		}
	}
	return out
}

func (s series) over(t series) series  { return s.with(t, func(x, y float64) float64 { return x / y }) }
func (s series) minus(t series) series { return s.with(t, func(x, y float64) float64 { return x - y }) }
func (s series) least(t series) series { return s.with(t, math.Min) }
func (s series) most(t series) series  { return s.with(t, math.Max) }

// each applies f to each value.
func (s series) each(f func(x float64) float64) series {
	return s.with(s, func(x, _ float64) float64 { return f(x) })
}

func (s series) times(k float64) series { return s.each(func(x float64) float64 { return k * x }) }

// last is the value of the last round alone. It is for figures that count from the start.
func (s series) last() series { return series{s.values[max(0, len(s.values)-1):], s.missing} }

// median returns 0 if there are no values, so that notes can be made of what is missing.
func (s series) median() float64 {
	if len(s.values) == 0 {
		return 0
	}
	return throughput.Median(s.values)
}

// String returns the median, with as many digits as are significant.
func (s series) String() string {
	x := s.median()
	if x == math.Trunc(x) {
		return fmt.Sprintf("%.0f", x)
	}
	return fmt.Sprintf("%.*f", max(0, min(3, 2-int(math.Floor(math.Log10(max(x, 1e-9)))))), x)
}

// quantile is the smallest of the values that at least the share p of them does not exceed.
func quantile(x []float64, p float64) float64 {
	x = slices.Sorted(slices.Values(x))
	return x[max(int(math.Ceil(p*float64(len(x))))-1, 0)]
}

// skipped is a row that is not measured, for a reason.
func skipped(reason, what string) row { return measured(what, "", series{missing: errors.New(reason)}) }
