package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/batchfs/batchfs/internal/throughput"
)

// A row is one line of the table.
type row struct {
	what, unit string
	throughput.Figure
	rule    string // at least, or at most; informational if empty
	goal    float64
	note    string
	skipped string // why there is no figure
	passed  string // what was found, where that is no figure
}

// measured is a row of several measurements.
func measured(what, unit string, figures []float64, note string) row {
	return row{what: what, unit: unit, Figure: throughput.FigureOf(figures), note: note}
}

// once is a row of one measurement.
func once(what, unit string, x float64, note string) row {
	return measured(what, unit, []float64{x}, note)
}

func (r row) atLeast(x float64) row {
	r.rule, r.goal = "at least", x
	return r
}

func (r row) atMost(x float64) row {
	r.rule, r.goal = "at most", x
	return r
}

func (r row) String() string {
	switch {
	case r.skipped != "":
		return fmt.Sprintf("%-66s skipped: %s", r.what, r.skipped)
	case r.passed != "":
		return fmt.Sprintf("%-66s passed: %s", r.what, r.passed)
	}
	digits := 3
	if r.unit == "images/s" {
		digits = 0
	}
	text := fmt.Sprintf("%-66s %9.*f %-8s", r.what, digits, r.Value, r.unit)
	if r.rule != "" {
		verdict := "MISSED"
		if r.rule == "at least" && r.Value >= r.goal || r.rule == "at most" && r.Value <= r.goal {
			verdict = "met"
		}
		text += fmt.Sprintf(" %s %g: %s", r.rule, r.goal, verdict)
	}
	if r.Low != r.High {
		text += fmt.Sprintf("  (%.4g to %.4g)", r.Low, r.High)
	}
	if r.note != "" {
		text += "  " + r.note
	}
	return strings.TrimRight(text, " ")
}

// A progress shows the current measurement on one temporary line.
type progress struct {
	out   io.Writer // a terminal, or nowhere
	title string
}

// step shows that part i of n, from 0, has begun.
func (p progress) step(what string, i, n int) {
	fmt.Fprintf(p.out, "\r\033[K%s: %s, %d of %d", p.title, what, i+1, n)
}

func (p progress) clear() { fmt.Fprint(p.out, "\r\033[K") }
