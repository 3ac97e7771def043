package main

import (
	"errors"
	"math"
	"reflect"
	"strings"
	"testing"

	"github.com/batchfs/batchfs/internal/throughput"
)

func TestGoals(t *testing.T) {
	once := func(x float64) row { return measured("", "", numbers(x)) }
	for _, c := range []struct {
		r    row
		want string
	}{
		{once(0.9).atLeast(0.9), "at least 0.9: met"},
		{once(math.Nextafter(0.9, 0)).atLeast(0.9), "at least 0.9: MISSED"},
		{once(2).atMost(2), "at most 2: met"},
		{once(math.Nextafter(2, 3)).atMost(2), "at most 2: MISSED"},
		{measured("", "", series{missing: errors.New("no such thing")}), "skipped: no such thing"},
	} {
		if got := c.r.String(); !strings.HasSuffix(got, c.want) {
			t.Errorf("%q does not end in %q", got, c.want)
		}
	}
	if r := once(1); strings.Contains(r.String(), "at ") {
		t.Errorf("%q has a goal", r)
	}
}

func TestChosen(t *testing.T) {
	all, err := chosen("")
	if got := names(all); err != nil || strings.Contains(got, "peers") || !strings.Contains(got, "epoch") {
		t.Errorf("by default %v, %v: peers only when asked for", got, err)
	}
	if some, err := chosen("png,peers"); err != nil || names(some) != "png, peers/labels, peers/masks, peers/boxes" {
		t.Errorf("%v, %v", names(some), err)
	}
	if some, err := chosen("cold,cold/epoch,png"); err != nil || !strings.HasPrefix(names(some), "png, cold/epoch, cold/") || strings.Count(names(some), "epoch") != 1 {
		t.Errorf("%v, %v", names(some), err)
	}
	if _, err := chosen("png,nonsense"); err == nil || !strings.Contains(err.Error(), "nonsense\"") {
		t.Errorf("error %v does not name what is unknown", err)
	}
}

func TestRowAsJSON(t *testing.T) {
	r := measured("    a / b", "x", numbers(3, 1, 2)).atMost(2.5).noted("%d rounds", 3)
	want := map[string]any{
		"scenario": "this", "row": "a / b", "figure": throughput.Figure{Value: 2, Low: 1, High: 3}, "unit": "x",
		"at_most": 2.5, "met": true, "note": "3 rounds",
	}
	if got := r.document("this"); !reflect.DeepEqual(got, want) {
		t.Errorf("%v, not %v", got, want)
	}
	missing := measured("a", "x", series{missing: errors.New("no such thing")}).document("this")
	if want := (map[string]any{"scenario": "this", "row": "a", "skipped": "no such thing"}); !reflect.DeepEqual(missing, want) {
		t.Errorf("%v, not %v", missing, want)
	}
}
