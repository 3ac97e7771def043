package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/batchfs/batchfs/decode"
	"github.com/batchfs/batchfs/internal/convert"
	"github.com/batchfs/batchfs/internal/gen"
	"github.com/batchfs/batchfs/internal/testkit"
	"golang.org/x/sys/unix"
)

// TestNothingToGain: if no mix is faster, for example because all images are raw already, profile
// says that the dataset is best as it is, and convert makes nothing.
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
		{large, unix.EFBIG, "file too large", "once that is mended, the same command continues; to give up: rm -r 'my out.partial'"},
		{convert.Plan{}, unix.EFBIG, "file too large", ""},
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

// packedPhoto writes a JPEG and its packed form beside it, as dir/name and dir/name.bfs.
func packedPhoto(t *testing.T, dir, name string, keep decode.Remainder) (original []byte) {
	t.Helper()
	made := filepath.Join(t.TempDir(), "made")
	testkit.Must(t, gen.Write(t.Context(), gen.Options{Dir: made, Images: 1, Format: "jpeg"}))
	original, err := os.ReadFile(filepath.Join(made, "000000.jpg"))
	testkit.Must(t, err)
	h, err := decode.ReadHeader(original, true)
	testkit.Must(t, err)
	d := decode.NewDecoder(decode.Options{})
	defer d.Close()
	packed, err := d.Pack(original, h, keep)
	testkit.Must(t, err)
	write(t, dir, map[string]string{name: string(original), name + ".bfs": string(packed)})
	return original
}

// TestUnpackOne: an image may go to standard output, and one that was packed in memory has no
// original.
func TestUnpackOne(t *testing.T) {
	dir := t.TempDir()
	want := packedPhoto(t, dir, "a.jpg", decode.ForFile)
	if got := batchfs(t, "unpack", filepath.Join(dir, "a.jpg.bfs"), "--out", "-"); got.status != statusDone || got.out != string(want) || got.err != "" {
		t.Errorf("to standard output: %d bytes, %s", len(got.out), got.err)
	}
	packedPhoto(t, dir, "memory.jpg", decode.ForMemory)
	for name, want := range map[string]string{
		"memory.jpg.bfs": "was packed for memory",
		"a.jpg":          "is not a packed image\nbatchfs: hint: only images that batchfs convert",
		".":              "is a directory\nbatchfs: hint: to unpack all packed images in it: find " + dir + " -name '*.bfs' -exec batchfs unpack {} +",
	} {
		if got := batchfs(t, "unpack", filepath.Join(dir, name)); got.status != statusFailed || !strings.Contains(got.err, want) {
			t.Errorf("%s: %+v", name, got)
		}
	}
}
