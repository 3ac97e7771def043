package main

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/batchfs/batchfs/internal/daemon"
	"github.com/batchfs/batchfs/shard"
)

// TestMixManifest: a manifest names the copy of each image in its form.
func TestMixManifest(t *testing.T) {
	b := bench{stage: stage{ctx: t.Context(), options: options{batchfs: "true"}}} // it indexes nothing
	d := mixData{dir: t.TempDir()}
	for i := range 40 {
		d.paths, d.labels = append(d.paths, fmt.Sprintf("class/%02d.png", i)), append(d.labels, i%3)
	}
	m := mix{0.5, 0.2, 0.3}
	text := must(os.ReadFile(d.writeMix(&b, m)))
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")[1:]
	if len(lines) != len(d.paths) {
		t.Fatalf("%d lines", len(lines))
	}
	for k, f := range m.forms(40) {
		want := [shard.NumCosts]string{"encoded/%s", "packed/%s.bfs", "raw/%s.bmp"}[f]
		if want = fmt.Sprintf(want+",%d", d.paths[k], k%3); lines[k] != want {
			t.Errorf("image %d is %s, not %s", k, lines[k], want)
		}
	}
}

// TestField: equal rivals are one contender.
func TestField(t *testing.T) {
	b := &bench{stage: stage{options: options{batchfs: "a", libraries: "b"}}}
	f := &field{bench: b, d: &mixData{pipeline: pipelines[0], encoded: 1000}, s: setting{mb: 600, cpus: 1, cached: 0.3}}
	first, again := f.ours(alone(shard.Encoded)), f.ours(tenthsRaw(0))
	for i, r := range []rival{first, f.liquid(alone(shard.Encoded)), again, f.coordl(), f.liquid(tenthsRaw(3))} {
		if got, want := f.add(r), []int{0, 1, 0, 2, 3}[i]; got != want {
			t.Errorf("rival %d is contender %d, not %d", i, got, want)
		}
	}
	flags := strings.Join(f.flags(f.coordl()), " ")
	for _, want := range []string{
		"--cache-size 300 --cache-policy static", "--cache-form encoded", "--max-read-bandwidth 600MB", "--size 224x224",
	} {
		if !strings.Contains(flags, want) {
			t.Errorf("%s lacks %s", flags, want)
		}
	}
	if f.s.mb = 0; strings.Contains(strings.Join(f.flags(f.ours(alone(shard.Raw))), " "), "bandwidth") {
		t.Error("no limit is one")
	}
}

// TestSpreadOfEpochs: figures of several epochs combine to those of all their batches,
// without the first epoch.
func TestSpreadOfEpochs(t *testing.T) {
	dir := t.TempDir()
	text := `{"epochs":[
		{"epoch":0,"batches":9,"hits":0,"misses":90,"hits_per_batch":{"mean":0,"stddev":0},"storage_bytes_per_batch":{"mean":5,"stddev":1}},
		{"epoch":1,"batches":1,"hits":2,"misses":8,"hits_per_batch":{"mean":2,"stddev":0},"storage_bytes_per_batch":{"mean":100,"stddev":0}},
		{"epoch":2,"batches":3,"hits":18,"misses":12,"hits_per_batch":{"mean":6,"stddev":0},"storage_bytes_per_batch":{"mean":60,"stddev":0}}]}`
	write(filepath.Join(dir, ".batchfs", "stats.json"), []byte(text))
	found := figures{}
	check(spreadOf(&daemon.Mount{Dir: dir}, 10, found))
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

// TestRealPhotos: there may be none; those there are are repeated.
func TestRealPhotos(t *testing.T) {
	b := bench{stage: stage{options: options{realPhotos: t.TempDir(), work: t.TempDir()}}}
	if b.real() != nil {
		t.Error("there are photos")
	}
	write(filepath.Join(b.realPhotos, "97", "a.jpg"), must(os.ReadFile("../../decode/testdata/progressive.jpg")))
	drawReal(b.realPhotos, b.work, 3)
	files := filesBelow(b.work)
	if len(files) != 3 {
		t.Fatal(files)
	}
	for _, file := range files {
		wholeOf(file)
	}
}
