package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/batchfs/batchfs/engine"
)

// TestBenchNamesBadImages: an image that cannot be decoded ends bench before anything is
// mounted; the error has its name and the reason.
func TestBenchNamesBadImages(t *testing.T) {
	data := photos(t, 2)
	path := filepath.Join(data, "b", "1.png")
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, whole[:len(whole)-20], 0o644); err != nil {
		t.Fatal(err)
	}
	reason := batchfs(t, "verify", "--json", data)
	var r verifyReport
	if err := json.Unmarshal([]byte(reason.out), &r); err != nil || len(r.Bad) != 1 {
		t.Fatalf("%v: %s%s", err, reason.out, reason.err)
	}
	want := fmt.Sprintf("batchfs: error: cannot read b/1.png: %s\nbatchfs: hint: to list all such files: batchfs verify %s\n", r.Bad[0].Reason, data)
	if got := batchfs(t, "bench", data); got != (outcome{"", want, statusFailed}) {
		t.Errorf("%+v, want %q", got, want)
	}
}

// TestBecause: the reading process itself only knows that a batch does not open.
func TestBecause(t *testing.T) {
	line := []engine.BadSample{{Path: "a.png", Reason: "empty"}, {Path: "b/1\n.png", ID: 3, Reason: "corrupt image"}}
	failed := fmt.Errorf("batchfs read failed: open /tmp/x/batch-00000.nhwc: %s", unix.EIO)
	for _, test := range []struct {
		err   error
		found []engine.BadSample
		want  string
	}{
		{failed, line, `cannot read "b/1\n.png": corrupt image`},
		{failed, nil, failed.Error()},
		{errors.New("killed"), line, "killed"},
	} {
		if got := because(test.err, test.found); got.Error() != test.want {
			t.Errorf("%v: got %v, want %s", test.err, got, test.want)
		}
	}
	if err := because(nil, line); err != nil { // as with --on-error replace
		t.Error(err)
	}
}
