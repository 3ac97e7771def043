package main

import (
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/batchfs/batchfs/internal/target"
	"github.com/batchfs/batchfs/internal/testkit"
)

// writeArray writes an .npy file with that many bytes of elements below a folder.
func writeArray(t *testing.T, dir, name, descr, shape string, bytes int) {
	t.Helper()
	header := fmt.Sprintf("{'descr': '%s', 'fortran_order': False, 'shape': %s, }\n", descr, shape)
	file := binary.LittleEndian.AppendUint16([]byte("\x93NUMPY\x01\x00"), uint16(len(header)))
	file = append(append(file, header...), make([]byte, bytes)...)
	save(t, filepath.Join(dir, name), file)
}

// arrayed makes a dataset of images 0.png to 6.png. Each has a pose, all of one shape, and a track
// with its own number of rows, except 3.png, which has neither.
func arrayed(t *testing.T) (dir, manifest string) {
	t.Helper()
	dir = t.TempDir()
	var lines strings.Builder
	for i := range 7 {
		imageIn(t, dir, fmt.Sprintf("%d.png", i))
		writeArray(t, dir, fmt.Sprintf("p%d.npy", i), "<f4", "(2,)", 8)
		writeArray(t, dir, fmt.Sprintf("t%d.npy", i), "<i2", fmt.Sprintf("(%d, 3)", i), 6*i)
		if i == 3 {
			lines.WriteString(`{"path":"3.png"}` + "\n")
			continue
		}
		fmt.Fprintf(&lines, "{\"path\":\"%d.png\",\"pose\":\"p%d.npy\",\"track\":\"t%d.npy\"}\n", i, i, i)
	}
	manifest = filepath.Join(dir, "m.jsonl")
	save(t, manifest, lines.String())
	return dir, manifest
}

// TestArraysOfManifests: the first line says what the arrays are, and counts the bad annotations:
// arrays that differ from most others of their column.
func TestArraysOfManifests(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	dir, manifest := arrayed(t)
	r, _, err := openTargeted(t, manifest, target.Arrays)
	testkit.Must(t, err)
	if want := "; annotations: a manifest (m.jsonl); arrays: pose float32 [2] (1 image without), track int16 [*, 3] (1 image without)"; r.annotated != want || len(r.engine.Condemned) > 0 {
		t.Errorf("%s, %v", r.annotated, r.engine.Condemned)
	}
	if rows := fmt.Sprint(r.engine.Arrays[0].Rows, r.engine.Arrays[1].Rows); rows != "[0 1 2 -1 3 4 5] [0 1 2 -1 3 4 5]" {
		t.Error(rows)
	}

	if err := os.Remove(filepath.Join(dir, "p0.npy")); err != nil { // the first array, which told what the others are
		t.Fatal(err)
	}
	if r, _, err := openTargeted(t, manifest, target.Arrays); err != nil || !strings.Contains(r.annotated, "pose float32 [2]") {
		t.Errorf("%v, %v", r.annotated, err)
	}

	writeArray(t, dir, "p1.npy", "<f8", "(2,)", 16)
	writeArray(t, dir, "p4.npy", ">f4", "(2,)", 8)
	writeArray(t, dir, "p5.npy", "<f4", "(2,)", 7)
	writeArray(t, dir, "t4.npy", "<i2", "(2, 4)", 16)
	save(t, filepath.Join(dir, "t5.npy"), "no array")
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	if r, _, err = openTargeted(t, manifest, target.Arrays); err != nil {
		t.Fatal(err)
	}
	for id, want := range map[int64]string{
		0: "p0.npy: no such file", 1: "p1.npy: its dtype or its shape is not that of the others, pose float32 [2]", 2: "",
		4: "p4.npy: its elements are big-endian", 5: "p5.npy: it has 75 bytes, and its header says 76", 6: "",
	} {
		if why := r.engine.Condemned[id]; !strings.HasPrefix(why, want) || (want == "") != (why == "") {
			t.Errorf("%d.png: %q", id, why)
		}
	}
	if !strings.Contains(r.annotated, "; 4 images with bad annotations (p0.npy: no such file") {
		t.Error(r.annotated)
	}
	got := batchfs(t, "verify", "--targets", "arrays", manifest)
	for _, want := range []string{"1.png: p1.npy: its dtype or its shape is not", "4.png: p4.npy: its elements are big-endian", "7 images and 12 arrays, 4 bad\n"} {
		if got.status != statusFailed || !strings.Contains(got.out, want) {
			t.Errorf("status %d, and not %q: %s%s", got.status, want, got.out, got.err)
		}
	}
}
