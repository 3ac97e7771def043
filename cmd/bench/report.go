package main

import (
	"fmt"
	"slices"
	"strings"
)

// A row is one line of the table.
type row struct {
	what, unit string
	series
	rule  string // at least, or at most; informational if empty
	goal  float64
	note  string
	quiet bool // it is left out, not shown as skipped, if a contender is missing
}

func measured(what, unit string, s series) row { return row{what: what, unit: unit, series: s} }

// ratio is a row of the ratio of two series. Its note has their values and their unit.
func ratio(what, unit string, over, under series) row {
	return measured(what, "x", over.over(under)).noted("%v and %v %s", over, under, unit)
}

// in is a row with another unit.
func (r row) in(unit string) row {
	r.unit = unit
	return r
}

// noted is a row with a formatted note.
func (r row) noted(format string, args ...any) row {
	r.note = fmt.Sprintf(format, args...)
	return r
}

// atLeast is a row with a goal, or without one if that is 0.
func (r row) atLeast(x float64) row {
	if x > 0 {
		r.rule, r.goal = "at least", x
	}
	return r
}

func (r row) atMost(x float64) row {
	r.rule, r.goal = "at most", x
	return r
}

// met reports whether the median reaches the goal.
func (r row) met() bool {
	return r.rule == "at least" && r.median() >= r.goal || r.rule == "at most" && r.median() <= r.goal
}

func (r row) String() string {
	if r.missing != nil {
		return fmt.Sprintf("%-66s skipped: %v", r.what, r.missing)
	}
	digits := 3
	if r.unit == "images/s" {
		digits = 0
	}
	low, high := slices.Min(r.values), slices.Max(r.values)
	text := fmt.Sprintf("%-66s %9.*f %-8s", r.what, digits, r.median(), r.unit)
	if r.rule != "" {
		verdict := "MISSED"
		if r.met() {
			verdict = "met"
		}
		text += fmt.Sprintf(" %s %g: %s", r.rule, r.goal, verdict)
	}
	if low != high {
		text += fmt.Sprintf("  (%.4g to %.4g)", low, high)
	}
	if r.note != "" {
		text += "  " + r.note
	}
	return strings.TrimRight(text, " ")
}
