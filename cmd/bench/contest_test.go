package main

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
)

// TestTurns: contenders take turns, who goes first alternates, and what was started is ended in the
// opposite order. An optional contender that fails takes no more turns, and has no figures.
func TestTurns(t *testing.T) {
	b := &stage{ctx: t.Context(), options: options{rounds: 3}}
	var log []string
	side := func(name string) contender {
		n := 0.
		return contender{start: func() turn {
			b.later(func() error { log = append(log, "end "+name); return nil })
			return func() figures {
				log, n = append(log, name), n+1
				return figures{rate: n}
			}
		}}
	}
	around := func(work func()) {
		log = append(log, "(")
		defer func() { log = append(log, ")") }()
		work()
	}
	missing := contender{optional: true, start: func() turn { panic(failure{errors.New("no such thing")}) }}
	turns := 0
	fails := ready(func() figures {
		if turns++; turns == 2 {
			check(errors.New("out of memory"))
		}
		return figures{rate: 1}
	})
	fails.optional = true
	r := b.hold("all", 0, side("a"), side("b").inside(around), missing, fails)
	if got, want := strings.Join(log, " "), "( ) a ( b ) ( b ) a a ( b ) end b end a"; got != want {
		t.Errorf("%s, not %s", got, want)
	}
	if got := r.of(rate, 0).values; !slices.Equal(got, []float64{1, 2, 3}) || turns != 2 {
		t.Errorf("the rounds are %v; %d turns of what fails", got, turns)
	}
	for i, want := range []string{"1.000 x         2 and 2 images/s", "skipped: no such thing", "skipped: out of memory"} {
		if row := r.ratio("a / it", rate, 0, 1+i).String(); !strings.HasSuffix(row, want) {
			t.Errorf("%s, not %s", row, want)
		}
	}
	log, missing.optional = nil, false
	err := catch(func() { b.hold("all", 0, side("a"), side("b").inside(around), missing) })
	if fmt.Sprint(err) != "all: no such thing" || strings.Join(log, " ") != "( ) end b end a" {
		t.Errorf("without a contender: %v, %v", err, log)
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

// TestRows: what rows say.
func TestRows(t *testing.T) {
	once := func(x float64) row { return measured("", "", numbers(x)) }
	for _, c := range []struct {
		r    row
		want string
	}{
		{once(0.9).atLeast(0.9), "at least 0.9: met"},
		{once(math.Nextafter(0.9, 0)).atLeast(0.9), "at least 0.9: MISSED"},
		{once(2).atMost(2), "at most 2: met"},
		{once(math.Nextafter(2, 3)).atMost(2), "at most 2: MISSED"},
		{once(1), "1.000"},
		{skipped("no such thing", ""), "skipped: no such thing"},
	} {
		if got := c.r.String(); !strings.HasSuffix(got, c.want) {
			t.Errorf("%q does not end in %q", got, c.want)
		}
	}
	r := measured("    a / b", "x", numbers(3, 1, 2)).atMost(2.5).noted("%d rounds", 3)
	if got := strings.Join(strings.Fields(r.String()), " "); got != "a / b 2.000 x at most 2.5: met (1 to 3) 3 rounds" {
		t.Error(got)
	}
}

// TestChosen: -only names scenarios or all of a kind; some run only when they are named.
func TestChosen(t *testing.T) {
	for _, c := range []struct{ only, begins, lacks string }{
		{"", "path, epoch, ", "peers"},
		{"png,peers", "png, peers/labels, peers/masks, peers/boxes", "path"},
		{"cold,cold/epoch,png", "png, cold/epoch, cold/workers, ", "path"},
	} {
		got, err := chosen(c.only)
		if err != nil || !strings.HasPrefix(names(got), c.begins) || strings.Contains(names(got), c.lacks) || strings.Count(names(got), "cold/epoch") > 1 {
			t.Errorf("%s: %v, %v", c.only, names(got), err)
		}
	}
	if _, err := chosen("png,nonsense"); err == nil || !strings.Contains(err.Error(), "nonsense\"") {
		t.Errorf("error %v does not name what is unknown", err)
	}
}
