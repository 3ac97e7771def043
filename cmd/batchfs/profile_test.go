package main

import (
	"encoding/json"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/batchfs/batchfs/internal/annotation"
	"github.com/batchfs/batchfs/internal/dataset"
	"github.com/batchfs/batchfs/internal/gen"
	"github.com/batchfs/batchfs/internal/testkit"
)

func TestProfile(t *testing.T) {
	dataset, work := photos(t, 10), t.TempDir()
	plot := filepath.Join(t.TempDir(), "mix.svg")
	args := []string{"profile", dataset, "--work", work, "--batch-size", "4", "--shuffle", "--max-read-bandwidth", "100KB", "--duration", "20ms", "--plot", plot}
	got := batchfs(t, append(args, "--json")...)
	var r struct {
		RawRatio     float64          `json:"raw_ratio"`
		PackedRatio  float64          `json:"packed_ratio"`
		EncodedRatio float64          `json:"encoded_ratio"`
		Forms        []string         `json:"forms"`
		Steps        []map[string]any `json:"steps"`
		Verified     float64          `json:"verified_images_per_second"`
		Images       int              `json:"images"`
	}
	if err := json.Unmarshal([]byte(got.out), &r); err != nil || got.status != statusDone || got.err != "" {
		t.Fatalf("status %d, %v: %s%s", got.status, err, got.out, got.err)
	}
	if math.Abs(r.RawRatio+r.PackedRatio+r.EncodedRatio-1) > 1e-9 || len(r.Forms) != 2 || len(r.Steps) < 3 || r.Verified <= 0 || r.Images != 20 {
		t.Errorf("%s", got.out)
	}
	if data, err := os.ReadFile(plot); err != nil || !strings.Contains(string(data), "</svg>") {
		t.Errorf("plot: %v", err)
	}
	left, err := os.ReadDir(work)
	if err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
	text := batchfs(t, args...)
	for _, want := range []string{"encoded:raw", "5:5", "best: ", "first epoch/s", "later epochs/s", " within ", "\nto "} {
		if !strings.Contains(text.out, want) {
			t.Errorf("it does not say %q: %s%s", want, text.out, text.err)
		}
	}
}

// TestProfileOfThree: packed images are candidates where they are smaller than raw ones, unless
// --formats leaves them out. Measured first is the mix in the middle; which others are, depends on
// how fast the machine is at that moment.
func TestProfileOfThree(t *testing.T) {
	dataset := filepath.Join(t.TempDir(), "photos")
	testkit.Must(t, gen.Write(t.Context(), gen.Options{Dir: dataset, Images: 10, Format: "png", Classes: 2, Workers: 2}))
	for formats, want := range map[string][]string{
		"packed,raw": {" packed and ", "encoded:packed:raw", "\n0:10:0 "},
		"packed":     {"encoded:packed", "\n5:5 "},
	} {
		got := batchfs(t, "profile", dataset, "--work", t.TempDir(), "--batch-size", "2", "--duration", "1ms", "--formats", formats, "--plot", filepath.Join(t.TempDir(), "x.svg"))
		for _, words := range want {
			if got.status != statusDone || !strings.Contains(got.out, words) {
				t.Errorf("--formats %s: status %d, it does not say %q: %s%s", formats, got.status, words, got.out, got.err)
			}
		}
	}
	out := filepath.Join(t.TempDir(), "best")
	got := batchfs(t, "convert", dataset, out, "--packed-ratio", "auto", "--raw-ratio", "auto", "--batch-size", "2", "--duration", "1ms")
	if got.status != statusDone || !strings.HasPrefix(got.out, "nothing was converted") && !strings.Contains(got.out, " images will be ") {
		t.Errorf("%+v", got)
	}
}

// TestProfileForTraining: with --consumer, profile says how much training gains, and which mix is
// enough for it.
func TestProfileForTraining(t *testing.T) {
	dataset := photos(t, 10)
	for consumer, want := range map[string][]string{
		"1us": {"training that takes 1µs for each batch can take 4e+06 images/s\n", "\nbest: ", "\nbest single form: ", "\nno mix is as fast as that"},
		"1h": {"training that takes 1h0m0s for each batch can take 0.001111 images/s\n", "\nsmallest that is enough: the dataset as it is ",
			"  training itself  ", "an image's file", "\ntraining gains nothing by a faster mix", "\nto use it: mount " + dataset + " as it is\n"},
	} {
		got := batchfs(t, "profile", dataset, "--work", t.TempDir(), "--batch-size", "4", "--duration", "1ms", "--formats", "raw", "--consumer", consumer)
		for _, words := range want {
			if got.status != statusDone || !strings.Contains(got.out, words) {
				t.Errorf("--consumer %s: status %d, it does not say %q: %s%s", consumer, got.status, words, got.out, got.err)
			}
		}
	}
}

// TestProfileLeavesOut: profile explains why it measures fewer images than the dataset has.
func TestProfileLeavesOut(t *testing.T) {
	dataset := photos(t, 3)
	save(t, filepath.Join(dataset, "a", "junk.png"), "no image")
	got := batchfs(t, "profile", dataset, "--work", t.TempDir(), "--batch-size", "2", "--duration", "1ms")
	want := "\n1 image skipped: unreadable or too large (batchfs verify " + dataset + ")\n\n"
	if got.status != statusDone || !strings.HasPrefix(got.out, "6 of 7 images, ") || !strings.Contains(got.out, want) {
		t.Errorf("status %d, %s%s, want %q", got.status, got.out, got.err, want)
	}
	// All images fit the cache, so it matters whether these are all there are.
	note := "note: the cache would hold all 7 images, even the largest files, and is left out of account"
	if !strings.Contains(got.out, note) || !strings.Contains(got.out, "if not, --samples 7;") {
		t.Errorf("it does not say %q: %s", note, got.out)
	}
	all := batchfs(t, "profile", dataset, "--work", t.TempDir(), "--batch-size", "2", "--duration", "1ms", "--samples", "7")
	if all.status != statusDone || strings.Contains(all.out, "left out of account") || !strings.Contains(all.out, "no limit") {
		t.Errorf("status %d, %s%s", all.status, all.out, all.err)
	}
}

// TestProfilesTakeAMountsFlags: a profile, and a conversion that asks for one, take every flag of a
// mount that affects how fast batches are made.
func TestProfilesTakeAMountsFlags(t *testing.T) {
	other := map[string]string{
		"epochs": "how many are listed", "list": "which forms are listed: all have the same samples",
		"allow-other": "who may read", "uid": "who may read", "gid": "who may read", "file-mode": "who may read", "dir-mode": "who may read",
		"log-level": "the log", "log-file": "the log", "log-format": "the log", "daemon": "how it is started", optionFlag: "another way to give flags",
	}
	for _, flag := range strings.Fields("targets annotations empty label-map ignore-index min-box-area min-visibility clip box-format max-boxes") {
		other[flag] = "images are measured, not what is annotated of them"
	}
	names := func(name string) []string {
		return flagNames(newApp(&console{machine: thisHost()}, true).Command(name).Flags)
	}
	mount := names("mount")
	for _, name := range []string{"profile", "convert"} {
		takes := names(name)
		for _, flag := range mount {
			if why, is := other[flag]; is == slices.Contains(takes, flag) {
				t.Errorf("%s and --%s of a mount: listed as %q, taken: %v", name, flag, why, !is)
			}
		}
	}
	for flag := range other {
		if !slices.Contains(mount, flag) {
			t.Errorf("a mount has no --%s", flag)
		}
	}
}

// TestDefaultProfile: convert requests a valid profile, on the storage of a result whose
// directory does not exist yet.
func TestDefaultProfile(t *testing.T) {
	path, parent := photos(t, 10), t.TempDir()
	c := &console{out: io.Discard, err: io.Discard, machine: thisHost()}
	r := convertRequest{dataset: path, out: filepath.Join(parent, "new", "mixed"), source: dataset.Options{Workers: 2, Logger: quiet}}
	f := &flagSet{}
	profiledFlags(c, f, &r.profile, &r.source, &r.gpu)
	testkit.Must(t, f.finish(nil))
	a, err := c.openAsked(t.Context(), path, r.source, annotation.Options{})
	testkit.Must(t, err)
	defer a.Close()
	ds := a.Images
	o := r.forMount(ds)
	o.Least = 20 * time.Millisecond
	result, err := c.runProfile(t.Context(), path, ds, o, r.gpu)
	if err != nil || filepath.Dir(result.Work) != parent || result.Shares.Validate() != nil || result.Verified <= 0 {
		t.Errorf("%+v, %v", result, err)
	}
	if left, err := os.ReadDir(parent); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}
