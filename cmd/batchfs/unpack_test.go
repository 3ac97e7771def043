package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/batchfs/batchfs/decode"
	"github.com/batchfs/batchfs/internal/gen"
	"github.com/batchfs/batchfs/internal/testkit"
)

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
