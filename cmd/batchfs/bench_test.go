package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/batchfs/batchfs/internal/sample"
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
	var r sample.Verdict
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
	const line = `{"time":"2000-01-01T00:00:00Z","path":"b/1\n.png","id":3,"reason":"corrupt image"}` + "\n"
	failed := error(&os.PathError{Op: "open", Path: "/tmp/x/batch-00000.nhwc", Err: unix.EIO})
	for _, test := range []struct {
		err   error
		lines string
		want  string
	}{
		{failed, line + line, "b/1\n.png: corrupt image"},
		{failed, "", failed.Error()},
		{failed, "?\n", failed.Error()},
		{errors.New("killed"), line, "killed"},
	} {
		if got := because(test.err, []byte(test.lines)); got.Error() != test.want {
			t.Errorf("%v: got %v, want %s", test.err, got, test.want)
		}
	}
	if err := because(nil, []byte(line)); err != nil { // as with --on-error replace
		t.Error(err)
	}
}
