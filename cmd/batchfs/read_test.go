package main

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/batchfs/batchfs/fusefs"
)

func TestSumWords(t *testing.T) {
	memory, err := unix.Mmap(-1, 0, 4096, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Munmap(memory)
	for i := range memory {
		memory[i] = byte(i*i>>3 + i)
	}
	for n := range 300 {
		var want uint64
		data := memory[:n]
		for ; len(data) >= 8; data = data[8:] {
			want += binary.NativeEndian.Uint64(data)
		}
		for _, b := range data {
			want += uint64(b)
		}
		if got := sumWords(memory[:n]); got != want {
			t.Fatalf("%d bytes add up to %d, want %d", n, got, want)
		}
	}
}

// epoch makes a directory like an epoch's: four batches, the last of them empty, as partial
// batches may be.
func epoch(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	files := map[string]string{
		"epoch.json": `{"shard":0,"epoch":0,"batches":4,"samples":12,"valid":10}`, "batch-00003.nhwc": "",
	}
	for _, name := range []string{"batch-00000.nhwc", "batch-00001.nhwc", "batch-00002.nhwc"} {
		files[name] = strings.Repeat("x", 5000)
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestRead(t *testing.T) {
	dir := epoch(t)
	read := func(args ...string) readReport {
		t.Helper()
		got := batchfs(t, append([]string{"read", "--json"}, args...)...)
		var r readReport
		if err := json.Unmarshal([]byte(got.out), &r); err != nil {
			t.Fatalf("%v: %s", err, got.err)
		}
		return r
	}
	mapped, byRead := read(dir), read("--how", "read", dir)
	for _, r := range []readReport{mapped, byRead} {
		if r.Batches != 4 || r.Images != 10 || r.Bytes != 15000 || r.Seconds < r.FirstSeconds || r.FirstSeconds <= 0 {
			t.Errorf("got %+v", r)
		}
	}
	if mapped.Sum != byRead.Sum || mapped.Sum == 0 {
		t.Errorf("sums are %d and %d", mapped.Sum, byRead.Sum)
	}
	if r := read("--batches", "2", dir, dir); r.Batches != 4 || r.Bytes != 20000 {
		t.Errorf("two batches of two epochs: %+v", r)
	}
	if r := read("--repeat", "3", filepath.Join(dir, "batch-00000.nhwc")); r.Batches != 3 || r.Bytes != 15000 || r.Sum != mapped.Sum {
		t.Errorf("a file three times: %+v", r)
	}
	if got := batchfs(t, "read", dir); !strings.HasPrefix(got.out, "10 images in ") {
		t.Errorf("prints %q", got.out)
	}
	if err := os.Remove(filepath.Join(dir, "batch-00002.nhwc")); err != nil {
		t.Fatal(err)
	}
	if got := batchfs(t, "read", dir); got.status != statusFailed || !strings.Contains(got.err, "batch-00002.nhwc: no such file") {
		t.Errorf("status %d: %s", got.status, got.err)
	}
}

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

func TestClip(t *testing.T) {
	if got, want := clip("short\nmuch too long\nüüüüüüüü\n", 6), "short\nmuch t\nüüüüüü\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
