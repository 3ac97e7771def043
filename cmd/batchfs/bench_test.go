package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"

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
	save(t, path, whole[:len(whole)-20])
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
