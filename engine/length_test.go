package engine

import (
	"encoding/json"
	"testing"

	"github.com/batchfs/batchfs/dataset"
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
