package fusefs

import (
	"encoding/base64"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/batchfs/batchfs/decode"
	"github.com/batchfs/batchfs/internal/catalog"
	"github.com/batchfs/batchfs/internal/dataset"
	"github.com/batchfs/batchfs/internal/engine"
	"github.com/batchfs/batchfs/internal/sample"
	"github.com/batchfs/batchfs/internal/testkit"
	"github.com/batchfs/batchfs/layout"
	"github.com/batchfs/batchfs/shard"
)

// TestPathsThatAreNotUTF8: such paths stay distinguishable in documents, and the documents have the
// predicted sizes.
func TestPathsThatAreNotUTF8(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{strings.Repeat("\xfe", 200), strings.Repeat("\xff", 200), strings.Repeat("é", 100), "fine"} {
		testkit.Must(t, os.WriteFile(filepath.Join(dir, name+".ppm"), []byte("P6 1 1 255\n123"), 0o600))
	}
	ds, err := dataset.Open(t.Context(), dir, dataset.Options{Workers: 1, Prober: sample.Probe})
	testkit.Must(t, err)
	defer ds.Close()
	c, err := catalog.New(ds, catalog.Options{
		Config: shard.Config{Shards: 1, BatchSize: 4, PadLastBatch: true}, Epochs: 1, Decoding: decode.Options{MaxPixels: 1 << 20},
	})
	testkit.Must(t, err)
	doc, err := RenderSmall(c, c.Describe(engine.Key{}), layout.JSON)
	if want := batchDocumentSize(4, longestPath(ds)); err != nil || int64(len(doc)) != want {
		t.Fatalf("%d bytes of %d: %v", len(doc), want, err)
	}
	var batch batchDocument
	testkit.Must(t, json.Unmarshal(doc, &batch))
	for _, s := range batch.Samples {
		path, odd := s.Path, strings.Contains(s.Path, "\ufffd")
		if odd {
			bytes, err := base64.StdEncoding.DecodeString(s.Bytes)
			if err != nil {
				t.Error(err)
			}
			path = string(bytes)
		}
		if path != ds.Path(int(s.ID)) || odd != (s.Bytes != "") {
			t.Errorf("%q, %q instead of %q", s.Path, s.Bytes, ds.Path(int(s.ID)))
		}
	}
	text := string(errorLines([]engine.BadSample{{Path: "\xfe"}, {Path: "\xff"}, {Path: "fine"}}))
	for k, line := range strings.Split(strings.TrimSpace(text), "\n") {
		if has := strings.Contains(line, `"path_bytes":"`+[]string{"/g==", "/w==", ""}[k]); has != (k < 2) {
			t.Errorf("errors.jsonl: %s", line)
		}
	}
}
