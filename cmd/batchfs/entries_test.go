package main

import (
	"bytes"
	"encoding/json"
	"image"
	"image/jpeg"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/batchfs/batchfs/decode"
	"github.com/batchfs/batchfs/internal/annotation"
	"github.com/batchfs/batchfs/internal/testkit"
)

// TestIndexEntryPoints: index finds entry points, keeps those of unchanged files, and reports them.
func TestIndexEntryPoints(t *testing.T) {
	if !slices.Contains(decode.Kernels(), decode.Portable) {
		t.Skip("this build's decoder makes no entry points")
	}
	t.Setenv(vectorsVariable, "portable")
	data, cache := filepath.Join(t.TempDir(), "data"), filepath.Join(t.TempDir(), "cache")
	write := func(name string, content []byte) { save(t, filepath.Join(data, name), content) }
	encoded := func(height int) []byte {
		var b bytes.Buffer
		testkit.Must(t, jpeg.Encode(&b, image.NewGray(image.Rect(0, 0, 64, height)), nil))
		return b.Bytes()
	}
	write("large.jpg", encoded(64))
	write("flat.jpg", encoded(8))
	write("cut.jpg", encoded(64)[:len(encoded(64))-4])
	writeImage(t, filepath.Join(data, "other.png"), 3, 5)
	index := func(args ...string) (r indexResult) {
		t.Helper()
		got := batchfsIn(t, cache, append([]string{"index", "--json", data}, args...)...)
		if err := json.Unmarshal([]byte(got.out), &r); err != nil || got.status != statusDone {
			t.Fatalf("%v: %s%s", err, got.out, got.err)
		}
		return r
	}
	if r := index(); r.Entries != nil {
		t.Errorf("found without being asked for: %+v", r.Entries)
	}
	const head = 256 + 256 + 4 // header, slots, and the checksum of the one file
	for rule, points := range map[string]int{"rows": 7, "8": 7, "30": 2} {
		want := annotation.EntryReport{Have: 1, None: 2, Bytes: head + int64(points)*8}
		for range 2 { // the second time, nothing is written
			if r := index("--entry-points", rule); *r.Entries != want {
				t.Errorf("%s: %+v instead of %+v", rule, *r.Entries, want)
			}
		}
	}
	write("more.jpg", encoded(32))
	if r := index("--entry-points", "rows"); r.Entries.Have != 2 || r.Entries.None != 2 {
		t.Errorf("%+v", *r.Entries)
	}
	if got := batchfsIn(t, cache, "index", "--entry-points", "rows", data); !strings.Contains(got.out, "\nentry points  2 JPEGs have them, 2 can have none, 0 not known; ") {
		t.Errorf("prints\n%s%s", got.out, got.err)
	}
	blocked := filepath.Join(t.TempDir(), "file")
	save(t, blocked, "")
	got := batchfsIn(t, blocked, "index", "--entry-points", "rows", data)
	if got.status != statusFailed || !strings.Contains(got.err, "entry points cannot be stored: no index is kept: ") || !strings.Contains(got.err, "not a directory\nbatchfs: hint: "+indexElsewhere.hint) {
		t.Errorf("without an index: %s", got.err)
	}
	if got := batchfsIn(t, blocked, "verify", "--part", "0/2", data); !strings.Contains(got.err, "no index is kept: ") || !strings.Contains(got.err, indexElsewhere.hint) {
		t.Errorf("a part without an index: %s", got.err)
	}
}

// TestEntryPointsFlag: the flag takes rows, off, and every number of MCUs from 1 on.
func TestEntryPointsFlag(t *testing.T) {
	for text, want := range map[string]decode.EntryRule{"rows": decode.EntryRows, "off": decode.EntryOff, "1": 1, "2147483647": 1<<31 - 1} {
		var got decode.EntryRule
		if rule := entryRule(&got)(text); rule != "" || got != want {
			t.Errorf("%s: %d, %s", text, got, rule)
		}
	}
}
