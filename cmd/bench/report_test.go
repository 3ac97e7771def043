package main

import (
	"math"
	"strings"
	"testing"
)

func TestGoals(t *testing.T) {
	for _, c := range []struct {
		r    row
		want string
	}{
		{once("", "", 0.9, "").atLeast(0.9), "at least 0.9: met"},
		{once("", "", math.Nextafter(0.9, 0), "").atLeast(0.9), "at least 0.9: MISSED"},
		{once("", "", 2, "").atMost(2), "at most 2: met"},
		{once("", "", math.Nextafter(2, 3), "").atMost(2), "at most 2: MISSED"},
		{row{skipped: "no such thing"}, "skipped: no such thing"},
		{row{passed: "back again"}, "passed: back again"},
	} {
		if got := c.r.String(); !strings.HasSuffix(got, c.want) {
			t.Errorf("%q does not end in %q", got, c.want)
		}
	}
	if r := once("", "", 1, ""); strings.Contains(r.String(), "at ") {
		t.Errorf("%q has a goal", r)
	}
}

func TestChosen(t *testing.T) {
	all, err := chosen("")
	if got := names(all); err != nil || strings.Contains(got, "peers") || !strings.Contains(got, "epoch") {
		t.Errorf("by default %v, %v: peers only when asked for", got, err)
	}
	if some, err := chosen("png,peers"); err != nil || names(some) != "png, peers" {
		t.Errorf("%v, %v", names(some), err)
	}
	if some, err := chosen("gpu,gpu/exact,png"); err != nil || !strings.HasPrefix(names(some), "png, gpu/exact, gpu/") || strings.Count(names(some), "exact") != 1 {
		t.Errorf("%v, %v", names(some), err)
	}
	if _, err := chosen("png,nonsense"); err == nil || !strings.Contains(err.Error(), "nonsense\"") {
		t.Errorf("error %v does not name what is unknown", err)
	}
}
