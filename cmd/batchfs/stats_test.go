package main

import (
	"bytes"
	"strings"
	"testing"

	"github.com/batchfs/batchfs/fusefs"
)

func TestProgressIsQuietInAPipe(t *testing.T) {
	var out bytes.Buffer
	c := &console{err: &out}
	p := c.progress()
	report := p.reporter("indexing", "images")
	report(1, 2)
	report(2, 2)
	p.close()
	if out.Len() > 0 {
		t.Errorf("printed %q", out.String())
	}
	p = &progress{out: &out}
	report = p.reporter("indexing", "images")
	for i := range 10 {
		report(int64(i), int64(10+i)) // the total grows
	}
	p.close()
	p.close()
	if !strings.Contains(out.String(), "indexing") {
		t.Errorf("a terminal sees %q", out.String())
	}
}

func TestRates(t *testing.T) {
	var before, now fusefs.Stats
	before.Uptime, before.Storage.Bytes, before.Batches.StallSeconds = 10, 1000, 3
	now.Uptime, now.Storage.Bytes, now.Batches.StallSeconds, now.ImagesPerSecond, now.BytesPerSecond = 13, 5000, 4.5, 50, 7
	for _, test := range []struct {
		view statsView
		want []string
	}{
		{statsView{now: now, before: before}, []string{"50 images/s, 7 B/s", "50 % of the time now", "1.3 KiB/s"}},
		{statsView{now: now}, []string{"50 images/s, 7 B/s", "35 % of the time now", "384 B/s"}},
		{statsView{}, []string{"0 images/s, 0 B/s", "0 % of the time now", "0 B, 0 B/s"}},
	} {
		var out strings.Builder
		test.view.print(&out)
		for _, want := range test.want {
			if !strings.Contains(out.String(), want) {
				t.Errorf("does not print %q:\n%s", want, out.String())
			}
		}
	}
}
