package main

import (
	"math"
	"slices"
	"strings"
	"testing"
)

func TestFigure(t *testing.T) {
	for _, c := range []struct {
		x    []float64
		want figure
	}{
		{[]float64{3}, figure{3, 3, 3}},
		{[]float64{4, 2}, figure{3, 2, 4}},
		{[]float64{9, 1, 5}, figure{5, 1, 9}},
		{[]float64{8, 1, 2, 4}, figure{3, 1, 8}},
	} {
		before := slices.Clone(c.x)
		if got := figureOf(c.x); got != c.want {
			t.Errorf("figureOf(%v) = %v, want %v", c.x, got, c.want)
		}
		if !slices.Equal(c.x, before) {
			t.Errorf("figureOf changed %v to %v", before, c.x)
		}
	}
}

func TestGoals(t *testing.T) {
	for _, c := range []struct {
		r    row
		want string
	}{
		{row{figure: exactly(0.9)}.atLeast(0.9), "at least 0.9: met"},
		{row{figure: exactly(math.Nextafter(0.9, 0))}.atLeast(0.9), "at least 0.9: MISSED"},
		{row{figure: exactly(2)}.atMost(2), "at most 2: met"},
		{row{figure: exactly(math.Nextafter(2, 3))}.atMost(2), "at most 2: MISSED"},
		{row{Skipped: "no such thing"}, "skipped: no such thing"},
	} {
		if got := c.r.String(); !strings.HasSuffix(got, c.want) {
			t.Errorf("%q does not end in %q", got, c.want)
		}
	}
	if r := (row{figure: exactly(1)}); strings.Contains(r.String(), "at ") {
		t.Errorf("%q has a goal", r)
	}
}

func TestChosen(t *testing.T) {
	all, err := chosen("")
	if err != nil || slices.Contains(all, "peers") || !slices.Contains(all, "epoch") {
		t.Errorf("by default %v, %v: peers only when asked for", all, err)
	}
	if some, err := chosen("png,peers"); err != nil || !slices.Equal(some, []string{"png", "peers"}) {
		t.Errorf("%v, %v", some, err)
	}
	if _, err := chosen("png,nonsense"); err == nil || !strings.Contains(err.Error(), `"nonsense"`) {
		t.Errorf("error %v does not name what is unknown", err)
	}
}
