package main

import (
	"bytes"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/batchfs/batchfs/internal/daemon"
)

// TestMixManifest: a mix has the right number of raw images, evenly spread, and names the
// raw copies.
func TestMixManifest(t *testing.T) {
	dir := t.TempDir()
	b := bench{options: options{batchfs: "true"}} // it indexes nothing
	d := mixData{dir: dir}
	for i := range 40 {
		d.paths = append(d.paths, fmt.Sprintf("class/%02d.png", i))
	}
	for tenth := range tenths + 1 {
		if err := writeMix(t.Context(), &b, &d, float64(tenth)/tenths); err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(d.mix(float64(tenth) / tenths))
		if err != nil {
			t.Fatal(err)
		}
		lines := strings.Split(strings.TrimSpace(string(text)), "\n")[1:]
		if len(lines) != len(d.paths) {
			t.Fatalf("%d lines", len(lines))
		}
		raw := 0
		for k, line := range lines {
			if line == fmt.Sprintf("raw/class/%02d.png.bmp", k) {
				raw++
			} else if line != "encoded/"+d.paths[k] {
				t.Errorf("image %d is %s", k, line)
			}
			if want := float64(k+1) * float64(tenth) / tenths; math.Abs(float64(raw)-want) > 1 {
				t.Errorf("mix %d: %d of the first %d are raw", tenth, raw, k+1)
			}
		}
	}
}

// TestSpreadOfEpochs: figures of several epochs combine to those of all their batches,
// without the first epoch.
func TestSpreadOfEpochs(t *testing.T) {
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, ".batchfs"), 0o755); err != nil {
		t.Fatal(err)
	}
	text := `{"epochs":[
		{"epoch":0,"batches":9,"hits":0,"misses":90,"hits_per_batch":{"mean":0,"stddev":0},"storage_bytes_per_batch":{"mean":5,"stddev":1}},
		{"epoch":1,"batches":1,"hits":2,"misses":8,"hits_per_batch":{"mean":2,"stddev":0},"storage_bytes_per_batch":{"mean":100,"stddev":0}},
		{"epoch":2,"batches":3,"hits":18,"misses":12,"hits_per_batch":{"mean":6,"stddev":0},"storage_bytes_per_batch":{"mean":60,"stddev":0}}]}`
	if err := os.WriteFile(filepath.Join(dir, ".batchfs", "stats.json"), []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	found := figures{}
	if err := spreadOf(&daemon.Mount{Dir: dir}, 10, found); err != nil {
		t.Fatal(err)
	}
	wanted := figures{
		hitRatio: 0.5, hitsMean: 5, hitsDeviation: math.Sqrt(3), // of 2, 6, 6, 6
		bytesMean: 70, bytesVariation: math.Sqrt(300) / 70, // of 100, 60, 60, 60
		samplesMean: 5, samplesVariation: math.Sqrt(3) / 5,
	}
	for f, want := range wanted {
		if math.Abs(found[f]-want) > 1e-9 {
			t.Errorf("%s: %v, not %v", f.name, found[f], want)
		}
	}
	if err := spreadOf(&daemon.Mount{Dir: t.TempDir()}, 10, figures{}); err == nil {
		t.Error("no stats are something")
	}
}

// TestDraw: the picture contains its labels.
func TestDraw(t *testing.T) {
	var results []*mixResult
	for i, p := range pipelines {
		r := &mixResult{pipeline: p, bandwidth: bandwidths[i]}
		for range 2 - i { // the page cache, and a static one
			r.rivals = append(r.rivals, &rival{rates: numbers(90, 100, 110)})
		}
		for tenth := range tenths + 1 {
			r.rivals = append(r.rivals, &rival{raw: float64(tenth) / tenths, rates: numbers(100, 110, 100+10*float64(tenth))})
		}
		r.rivals = append(r.rivals, &rival{raw: 0.37, rates: numbers(150, 160, 170)})
		if n, raw := len(r.mixes()), r.mixes()[0].raw; n != tenths+1 || raw != 0 || r.chosen().raw != 0.37 {
			t.Errorf("%d mixes from %v", n, raw)
		}
		results = append(results, r)
	}
	plots := filepath.Join(t.TempDir(), "new")
	if err := drawMixes(results, plots); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(plots, "throughput-over-the-mix.svg"))
	if err != nil {
		t.Fatal(err)
	}
	for _, word := range []string{"PNG", "JPEG", "10:0", "0:10", "150 MB/s", "600 MB/s", "images/s"} {
		if !strings.Contains(string(text), word) {
			t.Errorf("it does not say %q", word)
		}
	}
	if bytes.Contains(text, []byte("NaN")) || bytes.Contains(text, []byte("Inf")) {
		t.Error("it has places that are none")
	}
}

// TestDiskOf: limits apply to disks; a path that is on no disk cannot be limited.
func TestDiskOf(t *testing.T) {
	if disk, err := diskOf("/proc"); err == nil {
		t.Errorf("/proc is on disk %s", disk)
	}
	if _, err := diskOf(filepath.Join(t.TempDir(), "nothing")); err == nil {
		t.Error("nothing is on a disk")
	}
}
