package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/batchfs/batchfs/dataset"
	"github.com/batchfs/batchfs/internal/convert"
)

func TestConvertUsage(t *testing.T) {
	convert := func(flags ...string) []string {
		return append([]string{"convert", "/nowhere/photos", "/nowhere/out"}, flags...)
	}
	for _, test := range []struct {
		args []string
		want string
	}{
		{[]string{"convert", "--raw-ratio", "0.5"}, "DATASET is missing"},
		{[]string{"convert", "photos", "--raw-ratio", "0.5"}, "OUT is missing"},
		{convert(), "--raw-ratio or --packed-ratio is missing"},
		{convert("--raw-ratio", "1.5"), `--raw-ratio must be a number from 0 to 1, or auto, but is "1.5"`},
		{convert("--raw-ratio", "-1/3"), `--raw-ratio must be a number from 0 to 1, or auto, but is "-1/3"`},
		{convert("--raw-ratio", "most"), `--raw-ratio must be a number from 0 to 1, or auto, but is "most"`},
		{convert("--raw-ratio", "1", "--raw-format", "tiff"), `--raw-format must be bmp or ppm, but is "tiff"`},
		{convert("--raw-ratio", "1", "--raw-size", "9x9"), "--raw-size needs --raw-resize, as in --raw-resize not-smaller"},
		{convert("--raw-ratio", "1", "--raw-resize", "stretch"), "--raw-resize needs --raw-size, as in --raw-size 256x256"},
		{convert("--raw-ratio", "1", "--raw-resize", "stretch", "--raw-size", "0x9"), `--raw-size must be a height and a width, each from 1 to 1048576, as in 256x256, but is "0x9"`},
		{convert("--raw-ratio", "1", "--raw-size", "9x9", "--raw-resize", "random-resized-crop"), `--raw-resize must be stretch, not-larger or not-smaller, but is "random-resized-crop"`},
		{convert("--raw-ratio", "1", "--raw-size", "9x9", "--raw-resize", "center-crop"), `--raw-resize must be stretch, not-larger or not-smaller, but is "center-crop"`},
		{convert("--packed-ratio", "2"), `--packed-ratio must be a number from 0 to 1, or auto, but is "2"`},
		{convert("--packed-ratio", "auto", "--raw-ratio", "0.6"), "--raw-ratio and --packed-ratio must be both numbers or both auto"},
		{convert("--packed-ratio", "0.5", "--raw-ratio", "0.6"), `--packed-ratio must be at most what a raw ratio of 0.6 leaves of 1, but is "0.5"`},
		{convert("--raw-ratio", "1", "--seed", "x"), `--seed must be a whole number from 0 to 2^64-1, but is "x"`},
		{convert("--raw-ratio", "1", "--workers", "0"), `--workers must be a whole number from 1 to 4096, but is "0"`},
		{convert("--raw-ratio", "1", "--memory-limit", "0"), `--memory-limit must be a size in bytes above 0`},
		{convert("--ratio", "1"), "unknown flag --ratio"},
		{convert("--raw-ratio", "0.5", "--entry-points", "off"), "--entry-points is for --raw-ratio auto"},
		{convert("--raw-ratio", "0.5", "--size", "8x8"), "--size is for --raw-ratio auto"},
		{convert("--raw-ratio", "auto", "--resize", "stretch"), "--resize stretch needs --size"},
	} {
		refuses(t, test.want, test.args...)
	}
}

// convertedJSON is the JSON output of convert.
type convertedJSON struct {
	Dataset, Out, Manifest          string
	Samples, Raw, Converted, Linked int
	RawRatio                        float64 `json:"raw_ratio"`
	RawFormat                       string  `json:"raw_format"`
	RawBytes                        int64   `json:"raw_bytes"`
	NeededBytes                     int64   `json:"needed_bytes"`
	FreeBytes                       int64   `json:"free_bytes"`
	Finished                        bool    `json:"finished_before"`
	Unreadable                      []dataset.BadFile
}

// converted runs convert and parses its output.
func converted(t *testing.T, args ...string) (s convertedJSON) {
	t.Helper()
	got := batchfs(t, append([]string{"convert", "--json"}, args...)...)
	if err := json.Unmarshal([]byte(got.out), &s); err != nil || got.status != statusDone || got.err != "" || strings.Count(got.out, "\n") != 1 {
		t.Fatalf("%q: %v: %+v", args, err, got)
	}
	return s
}

// TestNothingToGain: where no mix is faster, as where all images are raw already, profile says that
// the dataset is best as it is, and convert makes nothing.
func TestNothingToGain(t *testing.T) {
	data, dir := t.TempDir(), t.TempDir()
	for i := range 6 {
		picture := append([]byte("P6\n5 3\n255\n"), make([]byte, 5*3*3)...)
		save(t, filepath.Join(data, fmt.Sprintf("%d.ppm", i)), picture)
	}
	flags := []string{"--batch-size", "2", "--entry-points", "off", "--gpu", "none", "--duration", "10ms"}
	args := append([]string{"convert", data, filepath.Join(dir, "out"), "--raw-ratio", "auto"}, flags...)
	if got := batchfs(t, args...); got.status != statusDone || !strings.HasPrefix(got.out, "nothing was converted: no mix is faster by 3 % than the dataset as it is\n") {
		t.Errorf("status %d, %s%s", got.status, got.out, got.err)
	}
	if got := batchfs(t, append(args, "--json")...); got.status != statusDone || got.out != `{"dataset":"`+data+`","best_as_it_is":true}`+"\n" {
		t.Errorf("status %d, %s%s", got.status, got.out, got.err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
	args = append([]string{"profile", data}, flags...)
	if got := batchfs(t, args...); got.status != statusDone || !strings.Contains(got.out, "\nbest: the dataset as it is, ") || !strings.Contains(got.out, "\nto use it: mount ") {
		t.Errorf("status %d, %s%s", got.status, got.out, got.err)
	}
	if got := batchfs(t, append(args, "--json")...); got.status != statusDone || !strings.Contains(got.out, `"best_as_it_is":true`) {
		t.Errorf("status %d, %s%s", got.status, got.out, got.err)
	}
}

func TestConvert(t *testing.T) {
	data, out := photos(t, 5), filepath.Join(t.TempDir(), "mixed")
	s := converted(t, data, out, "--raw-ratio=2/5", "--seed", "3")
	if s.Samples != 10 || s.Raw != 4 || s.Converted != 4 || s.Linked != 6 || s.RawFormat != "bmp" || s.RawRatio != 0.4 || s.Out != out || s.Dataset != data {
		t.Errorf("got %+v", s)
	}
	if s.RawBytes != 4*(54+3*16) || s.NeededBytes < 4*512 || s.FreeBytes < s.NeededBytes || s.Unreadable == nil {
		t.Errorf("got %+v", s)
	}
	for _, class := range []string{"a", "b"} {
		if raw, _ := filepath.Glob(filepath.Join(out, class, "*.bmp")); len(raw) != 2 {
			t.Errorf("class %s has raw %v", class, raw)
		}
	}
	if got := batchfs(t, "verify", out); got.out != "10 images, 0 bad\n" {
		t.Errorf("verify prints %q", got.out)
	}
	if s := converted(t, data, out, "--raw-ratio=0.4", "--seed", "3"); !s.Finished || s.Raw != 4 || s.Converted != 0 {
		t.Errorf("once more: %+v", s)
	}
	again := filepath.Join(t.TempDir(), "again")
	got := batchfs(t, "convert", "--raw-ratio", "1", "--raw-format", "ppm", "--raw-size", "2x2", "--raw-resize", "stretch", out, again)
	for _, want := range []string{
		"10 of 10 images will be raw (4 already); kept as 4 hard links, 0 clones, 0 copies\n", "this needs ", " are free\n",
		"raw         10, 4 of them already\n", "done        6 made raw or packed, 4 linked, 0 cloned, 0 copied, 0 from an earlier run\n", "unreadable  0\n",
	} {
		if !strings.Contains(got.out, want) || got.status != statusDone || got.err != "" {
			t.Errorf("does not print %q: %+v", want, got)
		}
	}
	if got := batchfs(t, "index", again); !strings.Contains(got.out, "; pnm 6, bmp 4; ") {
		t.Errorf("index prints %s", got.out)
	}
}

// TestConvertPacked: packed images count, are read, and are said in words.
func TestConvertPacked(t *testing.T) {
	data, dir := photos(t, 5), t.TempDir()
	write(t, data, map[string]string{"a/5.png": "no image"})
	for _, test := range []struct{ flags, says, counts string }{
		{"--packed-ratio=1", "10 of 11 images will be packed (0 already); kept", "; packed 10; 1 unreadable"},
		{"--packed-ratio=0.5 --raw-ratio=0.2", "2 of 11 images will be raw (0 already), 6 packed (0 already); kept", "; packed 6, bmp 2, png 2; 1 unreadable"},
	} {
		got := batchfs(t, append([]string{"convert", data, filepath.Join(dir, test.flags)}, strings.Fields(test.flags)...)...)
		if got.status != statusDone || !strings.HasPrefix(got.out, test.says) {
			t.Errorf("%s: %+v", test.flags, got)
		}
		if got := batchfs(t, "index", filepath.Join(dir, test.flags)); !strings.Contains(got.out, test.counts) {
			t.Errorf("%s: index prints %s", test.flags, got.out)
		}
	}
}

// TestConvertManifest: labels and unreadable files are carried over.
func TestConvertManifest(t *testing.T) {
	data := photos(t, 2)
	list := filepath.Join(data, "list.csv")
	save(t, filepath.Join(data, "bad.png"), "no image")
	save(t, list, "path,label\na/0.png,x\nb/1.png,y\nbad.png,x\n")
	out := filepath.Join(data, "out") // beside the manifest's files
	s := converted(t, list, out, "--raw-ratio", "1")
	if s.Manifest != filepath.Join(out, "list.csv") || s.Dataset != list || s.Raw != 2 || len(s.Unreadable) != 1 || s.Unreadable[0].Path != "bad.png" || s.Unreadable[0].ID != 2 {
		t.Errorf("got %+v", s)
	}
	text, err := os.ReadFile(s.Manifest)
	if want := "path,label\na/0.png.bmp,x\nb/1.png.bmp,y\nbad.png,x\n"; err != nil || string(text) != want {
		t.Errorf("the manifest is %q, want %q; %v", text, want, err)
	}
	got := batchfs(t, "convert", "--raw-ratio", "0", list, filepath.Join(t.TempDir(), "out"))
	if got.status != statusDone || !strings.Contains(got.out, "unreadable  1\nbad.png: ") {
		t.Errorf("prints %+v", got)
	}
}

// TestConvertErrors: every early end comes with a hint.
func TestConvertErrors(t *testing.T) {
	small := convert.Plan{Out: "/data/my out", NeedBytes: 3 << 30, FreeBytes: 1 << 30}
	packed := small
	packed.Shares.Packed = 1
	large := convert.Plan{Out: "/data/my out", NeedBytes: 1 << 30, FreeBytes: 3 << 30}
	for _, test := range []struct {
		plan       convert.Plan
		err        error
		want, hint string
	}{
		{large, context.Canceled, "interrupted", "the same command continues; to give up: rm -r 'my out.partial'"},
		{small, convert.ErrSpace, "not enough space: 3.0 GiB are needed, 1.0 GiB are free", "make room, or choose a smaller --raw-ratio or --raw-size: df -h /data"},
		{packed, convert.ErrSpace, "not enough space: 3.0 GiB are needed, 1.0 GiB are free", "make room, or choose a smaller --packed-ratio: df -h /data"},
		{large, convert.ErrSpace, "not enough space", "make room, and the same command continues: df -h /data"},
		{large, convert.ErrSettings, "was begun with other settings", "to continue, give the same flags; to start again: rm -r 'my out.partial'"},
		{large, convert.ErrSource, "the dataset changed", "to start again: rm -r 'my out.partial'"},
		{large, convert.ErrNotEmpty, "directory is not empty", "choose a new directory elsewhere: batchfs convert DATASET OUT"},
		{large, convert.ErrInside, "lies inside the dataset", "choose a new directory elsewhere: batchfs convert DATASET OUT"},
		{large, convert.ErrForeign, "is not the unfinished work of batchfs convert", "see what it is, or choose another directory: ls -la 'my out.partial'"},
		{large, convert.ErrBusy, "another batchfs convert is writing it", "fuser -v 'my out.partial'"},
		{large, convert.ErrMountpoint, "is a mountpoint", "choose a directory in it: batchfs convert DATASET 'my out/mixed'"},
	} {
		err := convertError("my out/", test.plan, fmt.Errorf("convert: %w", test.err))
		if !strings.HasSuffix(err.Error(), test.want) || hintOf(err) != test.hint {
			t.Errorf("%v: %q, hint %q", test.err, err, hintOf(err))
		}
	}
	if got := hintOf(convertError("/data/out/", convert.Plan{}, convert.ErrSpace)); !strings.HasSuffix(got, ": df -h /data") {
		t.Errorf("no space, before there is a plan: hint %q", got)
	}
}

// TestConvertMetadata: a directory whose manifest was found in it becomes another such directory.
func TestConvertMetadata(t *testing.T) {
	data := photos(t, 2)
	write(t, data, map[string]string{"metadata.csv": "file_name,label\nb/1.png,dog\na/0.png,cat\n"})
	out := filepath.Join(filepath.Dir(data), "out")
	if got := batchfs(t, "convert", "--raw-ratio", "0.5", data, out); got.status != statusDone || !strings.Contains(got.out, "images      2\n") {
		t.Fatalf("%+v", got)
	}
	got := batchfs(t, "index", out)
	if want := out + ": 2 images in 2 classes (cat, dog); bmp 1, png 1; listed in metadata.csv, which"; !strings.HasPrefix(got.out, want) {
		t.Errorf("index prints %+v", got)
	}
}
