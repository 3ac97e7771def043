package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/batchfs/batchfs/fusefs"
)

func TestStats(t *testing.T) {
	mnt := t.TempDir()
	if err := os.Mkdir(filepath.Join(mnt, ".batchfs"), 0o755); err != nil {
		t.Fatal(err)
	}
	const text = `{"read_path":"passthrough","uptime":2,"images":64,"images_per_second":32,"errors":1,
"epochs":[{"epoch":4,"batches":1,"hits":30,"misses":70,"local_hits":50}],"jpegs":{"baseline":3,"kind":1,"entry_points":{"used":4,"made":5,"none":6,"wrong":7}},"more":{"than":"known"}}`
	save(t, filepath.Join(mnt, ".batchfs", "stats.json"), text+"\n")
	if got := batchfs(t, "stats", mnt, "--json"); got.out != text+"\n" {
		t.Errorf("prints %q", got.out)
	}
	got := batchfs(t, "stats", mnt)
	for _, want := range []string{"passthrough, up 2s", "32 images/s", "errors.jsonl", "30.0 % hits and 50.0 % in the local cache in epoch 4", "4, 75.0 % by batchfs itself", "4 JPEGs used them, 5 got them, 6 can have none, 7 had wrong ones"} {
		if !strings.Contains(got.out, want) {
			t.Errorf("does not print %q:\n%s", want, got.out)
		}
	}
}

func TestProgressIsQuietInAPipe(t *testing.T) {
	var out bytes.Buffer
	c := &console{err: &out}
	p := c.progress("indexing", "images")
	p.report(1, 2)
	p.report(2, 2)
	p.close()
	if out.Len() > 0 {
		t.Errorf("printed %q", out.String())
	}
	p = &progress{out: &out, label: "indexing", unit: "images"}
	for i := range 10 {
		p.report(int64(i), int64(10+i)) // the total grows
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
