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
	const text = `{"read_path":"passthrough","uptime":2,"images":64,"images_per_second":32,"errors":1,"more":{"than":"known"}}`
	if err := os.WriteFile(filepath.Join(mnt, ".batchfs", "stats.json"), []byte(text+"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if got := batchfs(t, "stats", mnt, "--json"); got.out != text+"\n" {
		t.Errorf("prints %q", got.out)
	}
	got := batchfs(t, "stats", mnt)
	for _, want := range []string{"passthrough, up 2s", "32 images/s", "errors.jsonl"} {
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

func TestRatesBetween(t *testing.T) {
	var before, now fusefs.Stats
	before.Uptime, before.Storage.Bytes, before.Batches.StallSeconds = 10, 1000, 3
	now.Uptime, now.Storage.Bytes, now.Batches.StallSeconds, now.ImagesPerSecond, now.BytesPerSecond = 12, 5000, 4, 50, 7
	if got, want := ratesBetween(now, &before), (rates{50, 7, 2000, 0.5}); got != want {
		t.Errorf("between two samples: %+v, want %+v", got, want)
	}
	if got, want := ratesBetween(now, nil), (rates{50, 7, 5000.0 / 12, 4.0 / 12}); got != want {
		t.Errorf("since the start: %+v, want %+v", got, want)
	}
	if got := ratesBetween(fusefs.Stats{}, nil); got != (rates{}) {
		t.Errorf("at the start: %+v", got)
	}
}
