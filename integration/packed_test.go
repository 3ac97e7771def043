package integration

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/batchfs/batchfs/decode"
)

// packedDataset converts a dataset, and returns the result and the command's summary.
func packedDataset(t *testing.T, original string, flags ...string) (out string, done packedDone) {
	t.Helper()
	out = filepath.Join(scratch(t), "converted")
	text := execute(t, append([]string{"convert", "--json", original, out}, flags...)...).done(t).out
	if err := json.Unmarshal([]byte(text), &done); err != nil || len(done.Unreadable) > 0 {
		t.Fatalf("%v: %s", err, text)
	}
	return out, done
}

type packedDone struct {
	Samples, Raw, Packed, Unpackable int
	Unreadable                       []any
}

// TestPackedDataset: a dataset whose images are packed gives the same bytes as the original, under
// all settings, as files and in a tar.
func TestPackedDataset(t *testing.T) {
	original := mixedImages(t)
	out, done := packedDataset(t, original, "--packed-ratio", "1")
	if done.Packed < done.Samples/2 || done.Packed+done.Unpackable != done.Samples {
		t.Errorf("of %d images, %d are packed, and %d have no packed form", done.Samples, done.Packed, done.Unpackable)
	}
	execute(t, "verify", out).done(t)
	tar := filepath.Join(scratch(t), "packed.tar")
	if text, err := output(exec.Command(needTool(t, "tar"), "-C", out, "-cf", tar, ".")); err != nil {
		t.Fatal(err, text)
	}
	for _, flags := range []string{
		"", "--resize stretch --size 24x31 --jpeg-scaling off", "--resize not-smaller --size 16x16 --color gray --ignore-orientation",
		"--resize random-resized-crop --size 20x20 --seed 3 --flip 0.5 --dtype float32 --cache-size 0",
	} {
		t.Run(flags, func(t *testing.T) {
			var want []digest
			for _, path := range []string{original, out, tar} {
				m := mountBatchfs(t, path, append(strings.Fields(flags), "--batch-size", "8", "--shards", "2")...)
				got := m.sums(t, 2, 2)
				if want == nil {
					want = got
				} else if !slices.Equal(got, want) {
					t.Errorf("%s has other batches than the original", path)
				}
			}
		})
	}
}

// TestUnpackDataset: unpack restores the files that convert packed, byte for byte except PNG, which
// has the same pixels; also through pipes.
func TestUnpackDataset(t *testing.T) {
	original := mixedImages(t)
	out, done := packedDataset(t, original, "--packed-ratio", "1")
	files, err := filepath.Glob(filepath.Join(out, "*", "*.bfs"))
	if err != nil || len(files) != done.Packed {
		t.Fatalf("%d packed files, and %d were said: %v", len(files), done.Packed, err)
	}
	piped := files[slices.IndexFunc(files, func(name string) bool { return !strings.HasSuffix(name, ".png.bfs") })]
	in, err := os.Open(piped)
	check(t, err)
	defer in.Close()
	cmd := exec.Command(suite.binary, "unpack", "-")
	cmd.Stdin = in
	got, err := output(cmd)
	check(t, err)
	execute(t, append([]string{"unpack", "--remove"}, files...)...).done(t)
	for i, file := range files {
		file = strings.TrimSuffix(file, ".bfs")
		name, err := filepath.Rel(out, file)
		check(t, err)
		was := mustRead(t, filepath.Join(original, name))
		is := mustRead(t, file)
		if decode.Sniff(was) != decode.PNG && !bytes.Equal(was, is) {
			t.Errorf("%s is another file than the original", name)
		}
		if _, err := os.Stat(files[i]); err == nil {
			t.Errorf("%s is still there", files[i])
		}
		if files[i] == piped && got != string(was) {
			t.Errorf("from a pipe: %d bytes of %d", len(got), len(was))
		}
	}
	oracle, again := newOracle(t, original, settings{}), newOracle(t, out, settings{})
	for i := range oracle.ds.Len() {
		a, b := oracle.picture(t, int64(i)), again.picture(t, int64(i))
		if oracle.ds.Path(i) != again.ds.Path(i) || !slices.Equal(a.values, b.values) {
			t.Errorf("%s became %s, or has other pixels", oracle.ds.Path(i), again.ds.Path(i))
		}
	}
}
