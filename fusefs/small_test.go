package fusefs

import (
	"encoding/json"
	"testing"

	"github.com/batchfs/batchfs/dataset"
	"github.com/batchfs/batchfs/engine"
	"github.com/batchfs/batchfs/layout"
)

// TestPathLength: pathLength is exact, because the sizes of documents follow from it.
func TestPathLength(t *testing.T) {
	for _, s := range []string{"", "a/b c~.jpg", `a"b`, `a\b`, "a<b", "a>b", "a&b", "a\tb", "a\x7fb", "größe", "a\xffb", "\u2028"} {
		text, err := json.Marshal(struct {
			Path  string `json:"path"`
			Bytes string `json:"path_bytes,omitempty"`
		}{s, dataset.PathBytes(s)})
		if err != nil {
			t.Fatal(err)
		}
		if got, want := pathLength(s), len(text)-len(`{"path":}`); got != want {
			t.Errorf("%q is said to take %d bytes, and takes %d", s, got, want)
		}
	}
}

// TestSmallFormsHaveTheirSizes: a small form has as many bytes as stat says.
func TestSmallFormsHaveTheirSizes(t *testing.T) {
	src := newFake()
	f := fakeFilesystem(t, src, direct)
	for batch := range src.most {
		for _, form := range layout.Forms() {
			if form.Large() {
				continue
			}
			n := node{kind: batchFile, key: engine.Key{Shard: 1, Epoch: 2, Batch: batch}, form: form}
			if text, err := f.small(t.Context(), n); err != nil || int64(len(text)) != f.batchSize(n) {
				t.Errorf("%s: %d bytes, %d expected: %v", form, len(text), f.batchSize(n), err)
			}
		}
	}
}
