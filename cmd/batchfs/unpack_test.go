package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/batchfs/batchfs/decode"
	"github.com/batchfs/batchfs/internal/gen"
)

// packedPhoto writes a JPEG and its packed form, beside each other, as dir/name and dir/name.bfs.
func packedPhoto(t *testing.T, dir, name string, keep decode.Remainder) (original []byte) {
	t.Helper()
	made := filepath.Join(t.TempDir(), "made")
	if err := gen.Write(t.Context(), gen.Options{Dir: made, Images: 1, Format: "jpeg"}); err != nil {
		t.Fatal(err)
	}
	original, err := os.ReadFile(filepath.Join(made, "000000.jpg"))
	if err != nil {
		t.Fatal(err)
	}
	h, err := decode.ReadHeader(original, true)
	if err != nil {
		t.Fatal(err)
	}
	d := decode.NewDecoder(decode.Options{})
	defer d.Close()
	packed, err := d.Pack(original, h, keep)
	if err != nil {
		t.Fatal(err)
	}
	write(t, dir, map[string]string{name: string(original), name + ".bfs": string(packed)})
	return original
}

func TestUnpack(t *testing.T) {
	dir := t.TempDir()
	want := packedPhoto(t, dir, "a.jpg", decode.ForFile)
	jpeg, packed := filepath.Join(dir, "a.jpg"), filepath.Join(dir, "a.jpg.bfs")
	then := time.Unix(1e9, 0)
	if err := os.Chtimes(packed, then, then); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(packed, 0o640); err != nil {
		t.Fatal(err)
	}
	is := func(path string) {
		t.Helper()
		got, err := os.ReadFile(path)
		if err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s is not the original: %v", path, err)
		}
		if info, err := os.Stat(path); err == nil && (!info.ModTime().Equal(then) || info.Mode() != 0o640) {
			t.Errorf("%s: %v, %v", path, info.Mode(), info.ModTime())
		}
	}
	if got := batchfs(t, "unpack", packed); got.status != statusFailed || got.out != "" || got.err != "batchfs: error: "+jpeg+" is there already\nbatchfs: hint: to replace it, add --force; to write elsewhere: --out DIR\n" {
		t.Errorf("over the original: %+v", got)
	}
	write(t, dir, map[string]string{"a.jpg": "something else"})
	if got := batchfs(t, "unpack", "--force", packed); got.status != statusDone || got.err != "" || !strings.HasPrefix(got.out, packed+": "+jpeg+", ") {
		t.Errorf("with --force: %+v", got)
	}
	is(jpeg)
	if got := batchfs(t, "unpack", "--out", filepath.Join(dir, "new/b"), packed); got.status != statusDone {
		t.Errorf("elsewhere: %+v", got)
	}
	is(filepath.Join(dir, "new/b/a.jpg"))
	if got := batchfs(t, "unpack", packed, "--out", "-"); got.status != statusDone || got.out != string(want) || got.err != "" {
		t.Errorf("to standard output: %d bytes, %s", len(got.out), got.err)
	}
	// Without the name's own extension, that of the format is taken.
	for packed, want := range map[string]string{"x.bfs": "x.jpg", "x.v2.BFS": "x.v2.jpg", "x.PNG.bfs": "x.PNG"} {
		if err := os.Link(filepath.Join(dir, "a.jpg.bfs"), filepath.Join(dir, packed)); err != nil {
			t.Fatal(err)
		}
		var told unpackResult
		got := batchfs(t, "unpack", "--json", "--remove", filepath.Join(dir, packed))
		if err := json.Unmarshal([]byte(got.out), &told); err != nil || got.status != statusDone || len(told.Files) != 1 || told.Files[0].Original != filepath.Join(dir, want) {
			t.Errorf("%s: %+v", packed, got)
		}
		is(filepath.Join(dir, want))
		if _, err := os.Stat(filepath.Join(dir, packed)); err == nil {
			t.Errorf("%s is still there", packed)
		}
	}
	if left, _ := filepath.Glob(filepath.Join(dir, ".batchfs*")); len(left) > 0 {
		t.Errorf("left behind: %q", left)
	}
}

// TestUnpackRefuses: each bad file is named in a line, nothing is written for it, and the others
// are unpacked all the same.
func TestUnpackRefuses(t *testing.T) {
	dir := t.TempDir()
	want := packedPhoto(t, dir, "b/good.jpg", decode.ForFile)
	packedPhoto(t, dir, "memory.jpg", decode.ForMemory)
	packed, err := os.ReadFile(filepath.Join(dir, "b/good.jpg.bfs"))
	if err != nil {
		t.Fatal(err)
	}
	changed := bytes.Clone(packed)
	changed[len(changed)/2] ^= 8
	write(t, dir, map[string]string{
		"cut.jpg.bfs": string(packed[:len(packed)-1]), "short.bfs": string(packed[:20]), "changed.jpg.bfs": string(changed), "empty.bfs": "",
		"image.jpg.bfs": string(want), "unnamed": string(packed), "twice.jpg.bfs": string(packed), "c/twice.jpg.bfs": string(packed),
	})
	reasons := []struct{ name, reason string }{
		{"cut.jpg.bfs", "its length is not what its header says"}, {"short.bfs", "ends early"}, {"changed.jpg.bfs", "its checksum is wrong"},
		{"empty.bfs", "is not a packed image"}, {"image.jpg.bfs", "is not a packed image"}, {"memory.jpg.bfs", "was packed for memory"},
		{"unnamed", "its name does not end in .bfs"}, {"gone.bfs", "no such file"}, {"b", "is a directory"}, {"c/twice.jpg.bfs", "just now"},
	}
	args := []string{"unpack", "--out", filepath.Join(dir, "out"), filepath.Join(dir, "twice.jpg.bfs")}
	for _, r := range reasons {
		args = append(args, filepath.Join(dir, r.name))
	}
	got := batchfs(t, append(args, filepath.Join(dir, "b/good.jpg.bfs"))...)
	lines := strings.Split(strings.TrimSpace(got.err), "\n")
	k := 0
	for _, line := range lines {
		if strings.HasPrefix(line, "batchfs: hint: ") {
			continue
		}
		if k == len(reasons) || !strings.Contains(line, reasons[k].name) || !strings.Contains(line, reasons[k].reason) {
			t.Errorf("says %q", line)
		}
		k++
	}
	if k != len(reasons) || got.status != statusFailed || strings.Count(got.out, "\n") != 2 {
		t.Errorf("%d errors of %d: %+v", k, len(reasons), got)
	}
	made, err := os.ReadDir(filepath.Join(dir, "out"))
	if err != nil || len(made) != 2 {
		t.Errorf("made %v, %v", made, err)
	}
	for args, want := range map[string]string{
		"unpack":                    "FILE is missing",
		"unpack --out - a b":        "--out - takes one FILE, not 2",
		"unpack --out - --remove a": "--remove is not for --out -",
		"unpack --out - --json a":   "--json is not for --out -",
		"unpack --force=perhaps a":  "--force must be true or false",
		"unpack - --remove":         "--remove is not for --out -",
	} {
		refuses(t, want, strings.Fields(args)...)
	}
}
