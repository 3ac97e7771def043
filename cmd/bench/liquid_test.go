package main

import (
	"bytes"
	"fmt"
	"io"
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
	b := bench{options: options{batchfs: "true"}} // it indexes nothing
	d := mixData{dir: t.TempDir()}
	for i := range 40 {
		d.paths, d.labels = append(d.paths, fmt.Sprintf("class/%02d.png", i)), append(d.labels, i%3)
	}
	m := mix{0.5, 0.2, 0.3}
	if err := d.writeMix(t.Context(), &b, m); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(d.manifest(m))
	if err != nil {
		t.Fatal(err)
	}
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
	b := &bench{options: options{batchfs: "a", libraries: "b"}}
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

// TestSettingNames: what rows begin with.
func TestSettingNames(t *testing.T) {
	for s, want := range map[setting]string{
		{600, 2, 0}: "600 MB/s, 2 processors", {0, 1, 0}: "no limit, 1 processor",
	} {
		if s.String() != want {
			t.Errorf("%q, not %q", s, want)
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

// TestDraw: pictures contain their labels, and nothing that is no number.
func TestDraw(t *testing.T) {
	measured := curve{name: "as measured", dots: true}
	model := curve{name: "by the model", color: 1, dashed: true}
	for k := range 5 {
		measured.add(float64(k), 100*float64(k))
		model.add(float64(k), 110*float64(k))
	}
	list := []bars{{"processors", []float64{90, 40, 20}}, {"storage", []float64{20, 60, 100}}}
	panels := []panel{
		{title: "JPEG", y: "images/s", curves: []curve{measured, model, {name: "nothing"}}},
		{title: "PNG", y: "% of what each could do", groups: formNames, bars: append(list, bars{name: "nobody"})},
		{title: "logarithmic", log: true, curves: []curve{{name: "as measured", points: measured.points[1:]}}},
	}
	dir := filepath.Join(t.TempDir(), "new")
	path := filepath.Join(dir, "picture.svg")
	contests := drawn([]contest{{}, {}}, &panels, dir, "picture")
	var s stage
	s.progress.out = io.Discard
	if _, err := s.hold(t.Context(), contests[2]); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, word := range []string{
		"JPEG", "images/s", "as measured", "by the model", "PNG", "encoded", "packed", "raw", "processors", "storage", ">200<",
	} {
		if !strings.Contains(string(text), word) {
			t.Errorf("it does not say %q", word)
		}
	}
	for _, word := range []string{"NaN", "Inf", "nothing", "nobody"} {
		if bytes.Contains(text, []byte(word)) {
			t.Errorf("it has %s", word)
		}
	}
	if n := strings.Count(string(text), "as measured"); n != 1 {
		t.Errorf("the legend has a name %d times", n)
	}
}

// TestApart: means are compared with how far they may be apart by chance.
func TestApart(t *testing.T) {
	if got := apart([]float64{3, 5}, []float64{1, 1}); math.Abs(got-3) > 1e-9 {
		t.Errorf("%v standard errors, not 3", got)
	}
	if got := apart([]float64{1, 1}, []float64{1, 1}); got != 0 {
		t.Errorf("equal means are %v apart", got)
	}
}

// TestComputed: rows of the model say so, and are on the storage that is asked for.
func TestComputed(t *testing.T) {
	b := &bench{options: options{batchfs: "a", libraries: "b", storage: []int{600, 3000}}}
	d := &mixData{pipeline: pipelines[0], takes: map[kind]takes{}}
	n := len(processors())
	d.takes[kind{"a", n}], d.takes[kind{"b", n}] = photosTake(), photosTake().onProcessors(0.5)
	rows := d.computed(b, 0, "ratio", func(ours, theirs takes, l limit) float64 {
		return l.bandwidth * theirs.seconds[shard.Encoded] / ours.seconds[shard.Encoded]
	}).rows(nil)
	if len(rows) != 2 || rows[0].median() != 2*600e6 || rows[1].median() != 2*3000e6 {
		t.Errorf("%v", rows)
	}
	if what := rows[0].String(); !strings.Contains(what, "JPEG, 600 MB/s, 16 processors: ratio") ||
		!strings.Contains(what, "computed by the model") {
		t.Error(what)
	}
}

// TestRealPhotos: without any, it is said; those there are are repeated.
func TestRealPhotos(t *testing.T) {
	photos := t.TempDir()
	if err := drawReal(photos, t.TempDir(), 3); err != errNoPhotos {
		t.Error(err)
	}
	photo, err := os.ReadFile("../../decode/testdata/progressive.jpg")
	if err != nil {
		t.Fatal(err)
	}
	from := filepath.Join(photos, "97")
	if err := os.Mkdir(from, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(from, "a.jpg"), photo, 0o644); err != nil {
		t.Fatal(err)
	}
	out := filepath.Join(t.TempDir(), "out")
	if err := drawReal(photos, out, 3); err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(out, "*", "*.png"))
	if err != nil || len(files) != 3 {
		t.Fatal(files, err)
	}
	if _, err := load(files); err != nil {
		t.Error(err)
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
