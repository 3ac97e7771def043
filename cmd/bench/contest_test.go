package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
)

// TestTurns: contenders take turns, who goes first alternates, and what was started is ended in the
// opposite order.
func TestTurns(t *testing.T) {
	b := &stage{rounds: 3, progress: progress{out: io.Discard}}
	var log []string
	side := func(name string) contender {
		n := 0.
		return contender{start: func(context.Context) (turn, error) {
			b.later(func() error { log = append(log, "end "+name); return nil })
			return func(context.Context) (figures, error) {
				log, n = append(log, name), n+1
				return figures{rate: n}, nil
			}, nil
		}}
	}
	around := func(_ context.Context, work func() error) error {
		log = append(log, "(")
		defer func() { log = append(log, ")") }()
		return work()
	}
	missing := contender{optional: true, start: func(context.Context) (turn, error) { return nil, errors.New("no such thing") }}
	var r results
	c := contest{contenders: []contender{side("a"), side("b").within(around), missing}, rows: func(found results) []row {
		r = found
		return []row{found.ratio("a / b", rate, 0, 1), found.ratio("a / c", rate, 0, 2)}
	}}
	rows, err := b.hold(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := strings.Join(log, " "), "( ) a ( b ) ( b ) a a ( b ) end b end a"; got != want {
		t.Errorf("%s, not %s", got, want)
	}
	if got := r.of(rate, 0).values; !slices.Equal(got, []float64{1, 2, 3}) {
		t.Errorf("the rounds are %v", got)
	}
	if rows[0].median() != 1 || rows[0].note != "2 and 2 images/s" || fmt.Sprint(rows[1].missing) != "no such thing" {
		t.Errorf("%+v", rows)
	}
	log, c.contenders[2].optional = nil, false
	if _, err := b.hold(t.Context(), c); err == nil || strings.Join(log, " ") != "( ) end b end a" {
		t.Errorf("without a contender: %v, %v", err, log)
	}
}

// TestFailedTurn: an optional contender whose turn fails takes no more of them, and has no figures.
func TestFailedTurn(t *testing.T) {
	b := &stage{rounds: 3, progress: progress{out: io.Discard}}
	turns := 0
	fails := ready(func(context.Context) (figures, error) {
		if turns++; turns == 2 {
			return nil, errors.New("out of memory")
		}
		return figures{rate: 1}, nil
	})
	fails.optional = true
	c := contest{contenders: []contender{fails}, rows: func(r results) []row { return []row{r.row("it", rate, 0)} }}
	rows, err := b.hold(t.Context(), c)
	if err != nil || turns != 2 || !strings.Contains(rows[0].String(), "skipped: out of memory") {
		t.Errorf("%v after %d turns: %v", rows, turns, err)
	}
}

func TestSeries(t *testing.T) {
	var x []float64
	for i := range 200 {
		x = append(x, float64(200-i))
	}
	for p, want := range map[float64]float64{0: 1, .5: 100, .99: 198, .9901: 199, 1: 200} {
		if got := quantile(x, p); got != want {
			t.Errorf("quantile %g of 1 to 200 is %g", p, got)
		}
	}
	a, b := numbers(1, 5, 4), numbers(2, 3, 4)
	for want, got := range map[string]series{
		"[0.5 1.6666666666666667 1]": a.over(b), "[-1 2 0]": a.minus(b), "[1 3 4]": a.least(b), "[2 5 4]": a.most(b), "[2 10 8]": a.times(2),
		"[4]": a.last(), "[]": a.over(series{missing: errors.New("none")}),
	} {
		if fmt.Sprint(got.values) != want {
			t.Errorf("%v, not %s", got.values, want)
		}
	}
	for x, want := range map[float64]string{2757.4: "2757", 103.46: "103", 12.03: "12.0", 1.333: "1.33", 0.4714: "0.471", 0.0004: "0.000", 40: "40", 0: "0"} {
		if got := numbers(x).String(); got != want {
			t.Errorf("%g is written %s", x, got)
		}
	}
}
