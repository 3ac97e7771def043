package integration

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/batchfs/batchfs/internal/testkit"
	"github.com/batchfs/batchfs/layout"
)

// TestRefusedFlags: wrong usage is refused with status 2 before anything is mounted or
// read, and the message names the flag, the rule and the value. cmd/batchfs tests the whole
// list; this tests the program itself.
func TestRefusedFlags(t *testing.T) {
	dataset, dir := tiles(t, 6, 2), mountpoint(t)
	for _, test := range []struct{ flags, flag, rule, value string }{
		{"--shards 0", "--shards", "at least 1", `"0"`},
		{"--shards 7", "--shards", "number of samples", `"7"`},
		{"--size 1x1", "--size", "large enough for every image (00000.ppm is larger: 2x2)", `"1x1"`},
		{"--memory-limit 1MiB", "--memory-limit", "enough for the mount and for decoding (24 MiB), and one batch (", `"1.0 MiB"`},
		{"--memory-limit 64MiB --size 1024x1024", "--memory-limit", "enough for the mount and for decoding (26 MiB), and one batch (", `"64 MiB"`},
		{"-o batch_size=0", "--batch-size", "from 1", `"0"`},
	} {
		args := append(append([]string{"mount", dataset}, strings.Fields(test.flags)...), dir)
		execute(t, args...).wrong(t, test.flag, test.rule, test.value)
		unmounted(t, dir)
	}
	execute(t, "mount", "--size", "1x1", dataset, dir).wrong(t, "--resize not-smaller", "--resize not-larger")
	execute(t, "mount").wrong(t, "DATASET is missing", "hint: batchfs mount DATASET MOUNTPOINT, where DATASET is a folder of images", "batchfs gen --out photos")
	execute(t, "mount", dataset+"-of-another-name", dir).failed(t, "dataset does not exist", "ls "+filepath.Dir(dataset), "batchfs gen --out photos")
	execute(t, "mount", "--shadrs", "3", dataset, dir).wrong(t, "--shadrs", "did you mean: --shards")
	execute(t, "mount", dataset).wrong(t, "MOUNTPOINT is missing")
	execute(t, "mount", dataset, dir, "more").wrong(t, "more", "too many arguments")
	execute(t, "monut").wrong(t, "monut", "did you mean: batchfs mount")
	if names, err := os.ReadDir(dir); err != nil || len(names) > 0 {
		t.Errorf("something was made: %v %v", names, err)
	}
}

// TestRefusedPlaces: unusable datasets and mountpoints give status 1 and a helpful command.
func TestRefusedPlaces(t *testing.T) {
	dataset, dir := tiles(t, 6, 2), mountpoint(t)
	file := filepath.Join(dataset, tileName(0))
	inside := filepath.Join(dataset, "inside")
	outer := filepath.Dir(dataset)
	link := filepath.Join(filepath.Dir(dir), "link")
	hollow, bare := filepath.Join(filepath.Dir(dir), "hollow"), filepath.Join(filepath.Dir(dir), "bare")
	check(t, os.Mkdir(inside, 0o755))
	check(t, os.Symlink(inside, link))
	writeFile(t, filepath.Join(bare, "class", "notes.txt"), []byte("no image"))
	writeFile(t, filepath.Join(bare, ".hidden.png"), pngFile(1, 1, 0))
	for name, text := range map[string]string{
		"outside.csv": "path\n../tiles/00000.ppm\n", "broken.jsonl": "{\"path\":\"a.png\"}\n{\"path\":\n", "no.parquet": "PAR1 this is none PAR1", "other.txt": "path\n",
	} {
		writeFile(t, filepath.Join(hollow, name), []byte(text))
	}
	for _, test := range []struct {
		dataset, dir string
		words        []string
	}{
		{dataset + "-not", dir, []string{"does not exist", "ls " + outer}},
		{"/no/where/at/all", dir, []string{"does not exist", "batchfs gen"}},
		{bare, dir, []string{"no images found", "batchfs gen"}},
		{hollow, dir, []string{"no.parquet: cannot be used as an archive", "unpack it"}},
		{file, dir, []string{"neither a directory, nor a manifest", "batchfs gen"}},
		{filepath.Join(hollow, "other.txt"), dir, []string{"line 1: ", "does not exist", "ls " + hollow}},
		{filepath.Join(hollow, "outside.csv"), dir, []string{"leaves the manifest's directory", "--allow-outside"}},
		{filepath.Join(hollow, "broken.jsonl"), dir, []string{"bad manifest", "2"}},
		{dataset, dir + "-not", []string{"no such file or directory", "mkdir -p " + dir + "-not"}},
		{dataset, file, []string{"lies inside the dataset"}},
		{dataset, suite.binary, []string{"not a directory", "mkdir"}},
		{dataset, hollow, []string{"not empty", "mkdir"}},
		{dataset, inside, []string{"lies inside the dataset", "batchfs mount DATASET MOUNTPOINT"}},
		{dataset, link, []string{"lies inside the dataset"}},
		{dataset, dataset, []string{"lies inside the dataset"}},
		{dataset, outer, []string{"lies inside the mountpoint"}},
	} {
		o := execute(t, "mount", test.dataset, test.dir).failed(t, test.words...)
		if !strings.Contains(o.stderr, "\nbatchfs: hint: ") {
			t.Errorf("%s: no hint", o.words)
		}
	}
	// With a limit of its own, it does not say that it shares the memory with other tests' mounts.
	execute(t, "mount", dataset, dir, "--memory-limit", "256MiB", "--list", "masks.npy").wrong(t, "--list must be of forms that the mount has, but is \"masks.npy\"", "--targets")
	unmounted(t, filepath.Dir(dir))
}

// A summary is the output of index.
type summary struct {
	Index                             string
	Samples, Classes, Scanned, Reused int
	Ignored                           int
	Unreadable                        []badLine
	IndexProblem                      string `json:"index_problem"`
}

// indexed runs the index command.
func indexed(t testing.TB, args ...string) (s summary) {
	t.Helper()
	o := execute(t, append([]string{"index", "--json"}, args...)...).done(t)
	if err := json.Unmarshal([]byte(o.out), &s); err != nil {
		t.Fatalf("%v: %s", err, o.out)
	}
	return s
}

// datasetDoc is a mount's document about its dataset.
type datasetDoc struct {
	Samples     int
	Fingerprint string
}

// fingerprint mounts a dataset briefly and returns its document.
func fingerprint(t testing.TB, dataset string) (d datasetDoc) {
	t.Helper()
	m := mountBatchfs(t, dataset, "--batch-size", "1", "--epochs", "1")
	m.document(t, "dataset.json", &d)
	for batch := range d.Samples {
		if _, err := os.ReadFile(m.path(0, 0, batch, layout.NHWCForm)); err != nil {
			t.Error(err)
		}
	}
	m.finish(t)
	return d
}

// TestIndexFollowsTheDataset: between mounts, files are added, removed and changed. Each
// mount shows the current files, reads only changed ones again, and never writes to the
// dataset.
func TestIndexFollowsTheDataset(t *testing.T) {
	const count = 20
	dir := filepath.Join(scratch(t), "images")
	name := func(id int) string { return filepath.Join(dir, []string{"a", "b"}[id%2], fmt.Sprintf("%03d.png", id)) }
	for id := range count {
		writeFile(t, name(id), pngFile(4, 4, byte(id)))
	}
	// Recently written directories are scanned again; settled ones are not.
	files := func() string {
		return runProgram(t, dir, nil, "find", ".", "-printf", "%P %y %m %s %i %T@ %C@\n")
	}
	settle := func() string {
		t.Helper()
		for _, d := range []string{dir, filepath.Join(dir, "a"), filepath.Join(dir, "b")} {
			backdate(t, d)
		}
		return files()
	}
	untouched := func(before string) {
		t.Helper()
		if diff := cmp.Diff(strings.Split(before, "\n"), strings.Split(files(), "\n")); diff != "" {
			t.Errorf("the dataset was written to: %s", diff)
		}
	}
	before := settle()
	first := indexed(t, dir)
	if first.Samples != count || first.Classes != 2 || first.Scanned != count || first.Reused != 0 || len(first.Unreadable) != 0 {
		t.Errorf("at first: %+v", first)
	}
	if info, err := os.Stat(first.Index); err != nil || info.Size() == 0 || strings.HasPrefix(first.Index, dir) {
		t.Errorf("the index: %v %v", info, err)
	}
	if again := indexed(t, dir); again.Scanned != 0 || again.Reused != count || again.Index != first.Index {
		t.Errorf("again: %+v", again)
	}
	one := fingerprint(t, dir)
	if two := fingerprint(t, dir); one != two || one.Samples != count {
		t.Errorf("unchanged: %+v, then %+v", one, two)
	}
	untouched(before)

	steps := []struct {
		what    string
		change  func()
		samples int
		scanned int
	}{
		{"one is new", func() { writeFile(t, name(100), pngFile(5, 5, 7)) }, count + 1, 1},
		{"one is gone", func() { remove(t, name(3)) }, count, 0},
		{"one has another name", func() {
			check(t, os.Rename(name(5), name(51)))
		}, count, 1},
		{"a class is new", func() { writeFile(t, filepath.Join(dir, "c", "1.png"), pngFile(4, 4, 1)) }, count + 1, 1},
		{"a class is gone", func() { remove(t, filepath.Join(dir, "c")) }, count, 0},
	}
	for _, step := range steps {
		step.change()
		before := settle()
		got := indexed(t, dir)
		if got.Samples != step.samples || got.Scanned != step.scanned || got.Reused != step.samples-step.scanned {
			t.Errorf("%s: %+v, want %d samples, %d of them scanned", step.what, got, step.samples, step.scanned)
		}
		now := fingerprint(t, dir)
		if now.Samples != step.samples || now == one {
			t.Errorf("%s: %+v, and it was %+v", step.what, now, one)
		}
		one = now
		untouched(before)
	}

	// A file changed in place leaves no trace in its directory.
	rewrite(t, name(7), pngFile(9, 9, 7))
	if got := indexed(t, dir); got.Scanned != 1 || got.Reused != count-1 {
		t.Errorf("one changed in place: %+v", got)
	}
	if now := fingerprint(t, dir); now == one {
		t.Error("one changed in place, and the fingerprint is the same")
	}
}

// backdate gives a file an old time, so that later changes differ.
func backdate(t testing.TB, path string) {
	t.Helper()
	info, err := os.Stat(path)
	check(t, err)
	old := info.ModTime().Add(-3600e9)
	check(t, os.Chtimes(path, old, old))
}

func remove(t testing.TB, path string) {
	t.Helper()
	check(t, os.RemoveAll(path))
}

// TestPlanCommand: the plan matches what a mount shows.
func TestPlanCommand(t *testing.T) {
	dataset := tiles(t, 23, 2)
	flags := []string{"--batch-size", "4", "--shards", "3", "--shuffle", "--seed", "11"}
	o := execute(t, append(append([]string{"plan", "--json", dataset, "--epoch", "0..2"}, flags...), "--shard", "1")...).done(t)
	m := mountBatchfs(t, dataset, flags...)
	lines := slices.Collect(strings.Lines(o.out))
	if len(lines) != 3 {
		t.Fatalf("%d lines for 3 epochs", len(lines))
	}
	for epoch, line := range lines {
		likeExample(t, "plan", []byte(line), planExample)
		var plan struct {
			Shard, Epoch int
			Batches      []struct {
				Batch, Valid   int
				Positions, IDs []int64
			}
		}
		if err := json.Unmarshal([]byte(line), &plan); err != nil || plan.Shard != 1 || plan.Epoch != epoch {
			t.Fatalf("%v: %s", err, line)
		}
		for i, b := range plan.Batches {
			ids := mustRead(t, m.path(1, epoch, i, layout.IDs))
			if want := layout.AppendNPY(nil, layout.IDs, layout.Spec{N: len(b.IDs)}, layout.Meta{IDs: b.IDs}); !bytes.Equal(ids, want) {
				t.Errorf("epoch %d, batch %d: the mount has other ids than %v", epoch, i, b.IDs)
			}
			if b.Batch != i || b.Valid < 1 || len(b.Positions) != 4 || len(b.IDs) != 4 {
				t.Errorf("%+v", b)
			}
		}
	}
	samples := execute(t, append([]string{"plan", "--json", "--samples", "23", "--shard", "1", "--epoch", "0..2"}, flags...)...).done(t)
	if samples.out != o.out {
		t.Error("for as many samples, the plan is another than for the dataset")
	}
	if text := execute(t, append([]string{"plan", "--samples", "23"}, flags...)...).done(t).out; strings.Count(text, "epoch 0: 2 batches") != 3 {
		t.Errorf("for people: %s", text)
	}
}

// TestStatsCommand looks at a mount from outside.
func TestStatsCommand(t *testing.T) {
	const side = 16
	m := tileMount(t, tiles(t, 16, side))
	m.hold(t, "open", 0, side, layout.NHWCForm).end()
	o := execute(t, "stats", "--json", m.dir).done(t)
	likeExample(t, "stats --json", []byte(o.out), statsExample)
	if strings.Count(o.out, "\n") != 1 {
		t.Errorf("not one line: %s", o.out)
	}
	if o := execute(t, "stats", m.dir).done(t); !strings.Contains(o.out, "1 opened") || strings.Contains(o.out, "\x1b") {
		t.Errorf("in a pipe: %q", o.out)
	}
	execute(t, "stats", filepath.Dir(m.dir)).failed(t, "no batchfs mount", "findmnt")
	m.kill(t)
	execute(t, "stats", m.dir).failed(t, m.dir, "batchfs umount "+m.dir)
	execute(t, "umount", m.dir).done(t)
}

// TestDoctorCommand reports what the machine offers, and leaves nothing mounted.
func TestDoctorCommand(t *testing.T) {
	dir := scratch(t)
	t.Setenv("TMPDIR", dir)
	var report struct {
		Version  string
		Findings []struct {
			Name, Found, Advice string
			OK                  bool
		}
	}
	o := execute(t, "doctor", "--json").done(t)
	if err := json.Unmarshal([]byte(o.out), &report); err != nil || report.Version == "" || len(report.Findings) < 8 {
		t.Errorf("%v: %s", err, o.out)
	}
	for _, f := range report.Findings {
		if f.Name == "" || f.Found == "" {
			t.Errorf("%+v", f)
		}
		if f.Name == "passthrough" && f.OK != capabilities().Passthrough {
			t.Errorf("passthrough: %+v", f)
		}
	}
	if text := execute(t, "doctor").done(t).out; !strings.Contains(text, "FUSE") {
		t.Errorf("for people: %s", text)
	}
	if left, err := testkit.MountsBelow(dir); err != nil || len(left) > 0 {
		t.Errorf("still mounted: %v (%v)", left, err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v (%v)", left, err)
	}
}

// TestDoctorWhereNothingMounts: the exit status says so.
func TestDoctorWhereNothingMounts(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root can hide /dev/fuse")
	}
	t.Setenv("TMPDIR", scratch(t))
	o := executeAs(t, exec.Command(needTool(t, "unshare"), "-m", "sh", "-c", `mount --bind /dev/null /dev/fuse && exec "$0" doctor`, suite.binary))
	if o.ended(t, 1); !strings.Contains(o.out, "!!  mounting") || !strings.Contains(o.out, "what to do:\n") {
		t.Errorf("%s%s", o.out, o.stderr)
	}
}

// TestBenchCommand measures a tiny dataset: every figure is present, nothing is left
// behind.
func TestBenchCommand(t *testing.T) {
	skipWithoutFUSE(t)
	dataset := tiles(t, 4, 512) // with tiny batches it would read very many
	o := execute(t, "bench", "--json", "--rounds", "1", "--batch-size", "4", dataset).done(t)
	var report map[string]any
	if err := json.Unmarshal([]byte(o.out), &report); err != nil {
		t.Fatalf("%v: %s", err, o.out)
	}
	for _, key := range []string{"ceiling_images_per_second", "mapped_images_per_second", "mapped_ratio", "read_images_per_second", "read_ratio", "first_batch_seconds", "finished_mapped_ratio", "finished_read_ratio"} {
		if v, ok := report[key].(float64); !ok || v <= 0 {
			t.Errorf("%s is %v", key, report[key])
		}
	}
	execute(t, "bench", dataset+"-not").failed(t, "does not exist")
	bad := spoiltImages(t)
	verdict := execute(t, "verify", bad.dir)
	first, _, _ := strings.Cut(verdict.out, ":")
	execute(t, "bench", "--rounds", "1", bad.dir).failed(t, "cannot read "+first+": ")
}
